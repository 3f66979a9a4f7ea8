"""Attention variants in YAML become self-contained Python modules of Triton kernels."""

__version__ = "0.1.0"
