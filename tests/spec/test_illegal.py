# ruff: noqa: E501 (one case a line)
"""A table of what is refused: the text, the token underlined, the message, and the hint."""

from __future__ import annotations

import pytest

from fagen.spec.errors import SpecErrors
from fagen.spec.load import load_text

PREAMBLE = """\
name: x
parameters:
  window: {type: int, default: 16}
  cap: {type: float, default: 2.0}
  flag: {type: bool, default: true}
  tile: {type: int, default: 128, static: true}
tensors:
  slopes: {shape: [heads], dtype: float32}
  doc: {shape: [batch, kv_len], dtype: int32}
  row: {shape: [batch, 4], dtype: int32}
  ragged: {shape: [batch, width], dtype: int32}
  long: {shape: [batch, 1000], dtype: int32}
let:
  soft: score * cap
functions:
  near(q, k): q - k < window
"""

EXPRESSIONS = [
    # names
    ("mask: q <= kv_idx", "q", "unknown name `q` in `mask`", "did you mean `q_idx`?"),
    ("mask: windw > 3", "windw", "unknown name `windw` in `mask`", "did you mean `window`?"),
    ("mask: near > 3", "near", "`near` is a function", "call it: `near(...)`"),
    ("score: exp", "exp", "`exp` is a function", "call it: `exp(...)`"),
    ("mask: inherited", "inherited", "there is nothing `inherited` in `mask`", None),
    (
        "mask: flag == true",
        "true",
        "unknown name `true` in `mask`",
        "did you mean `True`?",
    ),
    (
        "score: slopes * 2",
        "slopes",
        "`slopes` [heads] has 1 axis but is read with 0 indices",
        "write `slopes[h]`",
    ),
    ("mask: doc == 1", "doc", None, "write `doc[b, kv_idx]`"),
    ("mask: ragged == 1", "ragged", None, "write `ragged[b, ...]`"),
    ("score: cap[h]", "cap", "`cap` is not a tensor", None),
    ("score: slope[h]", "slope", "unknown tensor `slope` in `score`", "did you mean `slopes`?"),
    ("score: cap(h)", "cap", "`cap` is not a function", ""),
    ("score: tan(h)", "tan", "unknown function `tan` in `score`", "did you mean `tanh`?"),
    ("score: ceil(cap)", "ceil", "unknown function `ceil` in `score`", "write `-floor(-x)`"),
    # types
    ("mask: q_idx", "q_idx", "`mask` is an int; it must be a bool", None),
    ("mask: cap * 2", "cap * 2", "`mask` is a float; it must be a bool", None),
    ("mask: 1", "1", "`mask` is an int; it must be a bool", None),
    ("score: yes", "yes", "`score` is a bool; it must be a float", None),
    ("score: flag + 1", "flag + 1", None, ""),
    ("mask: flag < 1", "flag < 1", "`<` compares numbers, not a bool", ""),
    ("mask: flag == 1", "flag == 1", "`==` cannot compare bool with int", ""),
    ("mask: not q_idx", "not q_idx", "`not` needs bools, not an int", ""),
    ("mask: flag and h", "h", "`and` needs bools, not an int", ""),
    ("score: score if h else cap", "h", "the condition must be a bool, not an int", ""),
    ("score: score if flag else flag", "score if flag else flag", None, ""),
    ("score: cap // 2.0", "cap // 2.0", "`//` needs ints, not a float", ""),
    ("score: cap << 2", "cap << 2", "`<<` needs ints, not a float", ""),
    ("score: exp(flag)", "exp(flag)", "`exp` needs numbers, not a bool", ""),
    ("score: sum(flag for i in range(1))", "sum(flag for i in range(1))", None, ""),
    ("mask: any(h for i in range(1))", "any(h for i in range(1))", None, ""),
    ("score: slopes[cap]", "cap", "an index must be an int, not a float", None),
    ("score: slopes[flag]", "flag", "an index must be an int, not a bool", ""),
    ("score: slopes[b, h]", "slopes[b, h]", None, ""),
    ("mask: doc[b] == 1", "doc[b]", None, ""),
    # places
    ("mask: score > 0", "score", "`score` may not occur in `mask`", None),
    ("mask: soft > 0", "soft", "`soft` depends on `score`, which may not occur in `mask`", None),
    ("scale: 1 / q_len", "q_len", "`q_len` may not occur in `scale`", None),
    ("scale: slopes[0]", "slopes[0]", "`slopes` may not occur in `scale`", None),
    (
        "scale: 0",
        "0",
        "`scale` is 0 and never from 2**-100 to 2**100 or the negative of that",
        "write a factor on q.k, such as `rsqrt(head_dim)`",
    ),
    (
        "scale: head_dim - head_dim",
        "head_dim - head_dim",
        "`scale` is 0 and never from 2**-100 to 2**100 or the negative of that",
        None,
    ),
    (
        "scale: cap - cap",
        "cap - cap",
        "`scale` is 0 and never from 2**-100 to 2**100 or the negative of that",
        None,
    ),
    (
        "scale: 1e-40 * rsqrt(head_dim)",
        "1e-40 * rsqrt(head_dim)",
        "`scale` is 1.25e-41 and never from 2**-100 to 2**100 or the negative of that",
        None,
    ),
    ("scale: 2e30 * head_dim", "2e30 * head_dim", None, None),
    ("scale: 0 if cap > 3 else 0.0", "0 if cap > 3 else 0.0", None, None),
    (
        "scale: inf",
        "inf",
        "`scale` is inf and never from 2**-100 to 2**100 or the negative of that",
        None,
    ),
    (
        "scale: sqrt(-head_dim)",
        "sqrt(-head_dim)",
        "`scale` is no number and never from 2**-100 to 2**100 or the negative of that",
        None,
    ),
    ("scale: 1e-50", "1e-50", "floats are float32, in which this one is 0", "write `0.0`"),
    ("softmax: {sink: cap * kv_idx}", "kv_idx", "`kv_idx` may not occur in `softmax.sink`", None),
    ("softmax: {sink: soft}", "soft", None, None),
    ("softmax: {sink: 'doc[b, kv_idx]'}", "kv_idx", None, None),
    # arithmetic that cannot be meant
    ("mask: q_idx // 0 == 1", "q_idx // 0", "division by zero", ""),
    ("score: score / 0", "score / 0", "division by zero", ""),
    ("mask: q_idx % window == 1", "q_idx % window", "the divisor `window` may be zero", None),
    ("mask: q_idx // h == 1", "q_idx // h", "the divisor `h` may be zero", "write `max(h, 1)`"),
    ("mask: q_idx % -h == 1", "q_idx % -h", "the divisor `-h` may be zero", None),
    ("mask: q_idx // (h - 1) == 1", "q_idx // (h - 1)", None, "write `max(h - 1, 1)`"),
    ("mask: q_idx // doc[b, 0] == 1", "q_idx // doc[b, 0]", None, None),
    ("mask: q_idx < 2147483648", "2147483648", "ints have 32 bits; this one does not fit", None),
    ("mask: h & 0xFFFFFFFF > 0", "0xFFFFFFFF", None, "as a pattern of 32 bits it is -1"),
    ("mask: q_idx < 65536 * 65536", "65536 * 65536", None, ""),
    ("score: 1e39", "1e39", "floats are float32; this one does not fit", "write `inf`"),
    ("score: score * 1e400", "1e400", "floats are float32; this one does not fit", "write `inf`"),
    ("score: -1e309 + score", "1e309", "floats are float32; this one does not fit", "write `inf`"),
    (
        "score: score * 1e-400",
        "1e-400",
        "floats are float32, in which this one is 0",
        "write `0.0`",
    ),
    (
        "score: score + 0.000_1e-99",
        "0.000_1e-99",
        "floats are float32, in which this one is 0",
        "write `0.0`",
    ),
    (
        "score: 1e38 * 1e38",
        "1e38 * 1e38",
        "`1e+38 * 1e+38` is more than float32 can hold",
        "write `inf` if it is meant",
    ),
    (
        "score: score * exp(1000)",
        "exp(1000)",
        "`exp(1000.0)` is more than float32 can hold",
        "write `inf` if it is meant",
    ),
    (
        "score: 1e38 * score * 1e38",
        "1e38 * score * 1e38",
        "the constants of `1e+38 * score * 1e+38` multiply to 1e+76, past float32",
        "",
    ),
    (
        "score: -(score * 1e30) / 1e-30",
        "-(score * 1e30) / 1e-30",
        "the constants of `-(score * 1e+30) / 1e-30` multiply to -1e+60, past float32",
        "",
    ),
    ("score: score ** inf", "inf", "the exponent of `**` must be finite", None),
    ("score: score ** -inf", "-inf", "the exponent of `**` must be finite", None),
    ("score: score ** 1e300", "1e300", "floats are float32; this one does not fit", None),
    ("score: inf - inf", "inf - inf", "`inf - inf` is not a number", ""),
    ("score: log(-1)", "log(-1)", "`log(-1.0)` is not a number", ""),
    ("mask: h << -1 > 0", "h << -1", "a shift goes by 0 to 31 bits", "shift the other way"),
    ("mask: h >> 32 > 0", "h >> 32", "a shift goes by 0 to 31 bits", ""),
    ("score: score ** cap", "cap", "the exponent of `**` must be a constant", None),
    ("score: 2 ** score", "score", None, "write `exp2(x)`"),
    ("score: h ** 64", "64", "an int power is at most 31", "write `64.0` for a float power"),
    # rows and loops
    ("mask: h in ragged[b, :]", "ragged[b, :]", None, None),
    ("mask: h in long[b, :]", "long[b, :]", "`in` unrolls at most 256 entries, not 1000", ""),
    ("mask: h in slopes", "slopes", "behind `in` stands a row of a tensor", None),
    ("mask: h in row[b, 1:3]", "row[b, 1:3]", "behind `in` stands a row of a tensor", None),
    ("mask: h in row[:]", "row[:]", "`row` [batch, 4] has 2 axes but is read with 1 index", ""),
    ("mask: row[b, :] == 1", ":", "a slice may only follow `in`", None),
    ("mask: any(flag)", "any(flag)", "`any` takes one `for` over a range", None),
    ("mask: any(flag for i in row)", "row", "`any` runs over `range(N)`", None),
    ("mask: any(flag for i in range(1, 3))", "range(1, 3)", "`any` runs over `range(N)`", None),
    ("mask: any(flag for h in range(3))", "h", None, None),
    ("mask: any(flag for cap in range(3))", "cap", "`cap` is already a parameter", None),
    ("mask: any(flag for i in range(3) if flag)", None, None, None),
    ("mask: any(flag for i in range(window))", "window", None, None),
    ("mask: any(flag for i in range(999))", "999", "a range has at most 256 steps, not 999", ""),
    # calls
    ("mask: near(q_idx)", "near(q_idx)", "`near(q, k)` takes 2 arguments, not 1", ""),
    ("score: tanh(h, h)", "tanh(h, h)", "`tanh` takes 1 argument, not 2", ""),
    ("score: clamp(h, 0)", "clamp(h, 0)", "`clamp` takes 3 arguments, not 2", ""),
    ("score: max(h)", "max(h)", "`max` takes 2 or more arguments, not 1", ""),
    ("score: tanh(x=score)", "x=score", "arguments have no names here", ""),
    ("score: math.exp(score)", "math.exp", None, "write `exp`"),
    # syntax
    ("mask: flag && flag", "&&", "syntax error in `mask`", "write `and`"),
    ("mask: flag || flag", "||", "syntax error in `mask`", "write `or`"),
    ("mask: 'h = 1'", "=", "syntax error in `mask`", "compare with `==`"),
    ("mask: flag and !flag", "!", "syntax error in `mask`", "write `not`"),
    ("mask: 'flag ? h : b'", "?", "syntax error in `mask`", "write `a if condition else b`"),
    ("score: score +", "+", "syntax error in `score`", "something is missing behind `+`"),
    ("score: (score", "(", "`(` is never closed in `score`", ""),
    ("score: score)", ")", "`)` closes nothing in `score`", ""),
    ("score: score) + (score", ")", "`)` closes nothing in `score`", ""),
    ("score: score 5", "5", "syntax error in `score`", ""),
    ("score: '\"text\"'", '"text"', "text is not part of the language", ""),
    ("score: None", "None", "`None` is not part of the language", ""),
    ("score: 2j", "2j", None, ""),
    ("score: '[score]'", "[score]", "a list is not part of the language", ""),
    ("score: 'score, h'", "score, h", "a tuple is not part of the language", ""),
    ("score: 'lambda: 1'", "lambda: 1", "a lambda is not part of the language", ""),
    ("mask: h is b", "h is b", "`is` is not part of the language", "compare with `==`"),
    ("score: score @ cap", "score @ cap", "`@` is not part of the language", ""),
    ("score: score \N{MULTIPLICATION SIGN} 2", "\N{MULTIPLICATION SIGN}", None, "write `*`"),
    ("score:", "score", "`score` is empty", None),
    ("score: ''", "''", "`score` is empty", None),
    ("score: [1]", "[1]", "`score` must be an expression", ""),
    ("score: " + "tanh(" * 150 + "1" + ")" * 150, None, "`score` is nested too deeply", None),
    ("score: " + " + ".join(["cap"] * 200), None, "`score` is nested too deeply", None),
    ("mask: h < 0 and False", "h < 0 and False", "the mask is never true", None),
    # keys
    ("position: middle", "middle", "`position` must be `end` or `start`", ""),
    ("accuracy: exat", "exat", "`accuracy` must be `fast` or `exact`", "did you mean `exact`?"),
    ("passes: []", "[]", "`passes` must not be empty", ""),
    ("passes: [backward]", "[backward]", "`backward` comes without `forward`", None),
    ("softmax: 1", "1", "`softmax` must be a mapping", ""),
    ("softmax: {snk: 1}", "snk", "unknown key `snk` in `softmax`", "did you mean `sink`?"),
    ("description: yes", "yes", "`description` must be text (put it in quotes)", ""),
    ('description: "a\\0b"', None, "`description` must hold no control character, here U+0000", ""),
    (
        'description: "a\\x1bb"',
        None,
        "`description` must hold no control character, here U+001B",
        "",
    ),
    (
        'description: "a\\x7fb"',
        None,
        "`description` must hold no control character, here U+007F",
        "",
    ),
    (
        'description: "a\\ud800b"',
        None,
        "`description` must hold no control character, here U+D800",
        "",
    ),
    ("passes: forward", "forward", "`passes` must be a list", "write `[forward]`"),
    ("tuning: {problems: [{batch: 0, heads: 1, q_len: 1, head_dim: 1}]}", "0", None, ""),
]


def only(text: str):
    with pytest.raises(SpecErrors) as caught:
        load_text(text)
    found = [d for d in caught.value.diagnostics if "is never used" not in d.message]
    assert len(found) == 1, str(caught.value)
    return found[0]


def check(error, token, message, hint) -> None:
    start = error.column - 1
    if token is not None:
        assert error.source_line[start : start + error.length] == token
    if message is not None:
        assert error.message == message
    assert hint is None or error.hint == hint


@pytest.mark.parametrize(("line", "token", "message", "hint"), EXPRESSIONS)
def test_refused_in_an_expression_or_key(line, token, message, hint) -> None:
    error = only(PREAMBLE + line + "\n")
    assert error.line == PREAMBLE.count("\n") + 1
    check(error, token, message, hint)


DECLARATIONS = [
    ("parameters: {score: {type: int, default: 1}}", "score", None),
    ("parameters: {q: {type: int, default: 1}}", "q", None),
    ("parameters: {if: {type: int, default: 1}}", "if", None),
    ("parameters: {2x: {type: int, default: 1}}", "2x", None),
    ("parameters: {w: {type: int}}", "w", "`parameters.w` has no `default`"),
    ("parameters: {w: {default: 1}}", "w", "`parameters.w` has no `type`"),
    ("parameters: {w: 3}", "3", "`parameters.w` must be a mapping"),
    ("parameters: {w: {type: integer, default: 1}}", "integer", None),
    ("parameters: {w: {type: int, default: 1.0}}", "1.0", "`default` of `w` is a float; it must be an int"),
    ("parameters: {w: {type: int, default: yes}}", "yes", "`default` of `w` is a bool; it must be an int"),
    ("parameters: {w: {type: int, default: abc}}", "abc", "`parameters.w.default` must be a number or a bool"),
    ("parameters: {w: {type: float, default: .nan}}", ".nan", None),
    ("parameters: {w: {type: int, default: 0, min: 1}}", "0", "`default` of `w` is 0, outside 1 ..."),
    ("parameters: {w: {type: int, default: 5, min: 9, max: 1}}", "9", "`min` 9 is above `max` 1"),
    ("parameters: {w: {type: int, default: 268435457}}", "268435457", None),
    ("parameters: {w: {type: bool, default: true, min: 1}}", "1", "a bool has no `min`"),
    ("parameters: {w: {type: float, default: 1e39}}", "1e39", None),
    ("parameters: {w: {type: float, default: .inf}}", ".inf", "`default` of `w` is beyond -2**100 ... 2**100"),
    ("parameters: {w: {type: float, default: 1, max: 1.3e30}}", "1.3e30", "`max` of `w` is beyond -2**100 ... 2**100"),
    ("parameters: {w: {type: float, default: 1, min: -.inf}}", "-.inf", "`min` of `w` is beyond -2**100 ... 2**100"),
    ("parameters: {w: {type: float, default: " + "9" * 400 + "}}", "9" * 400, "`default` of `w` is beyond -2**100 ... 2**100"),
    ("parameters: {w: {type: float, default: 1e39, static: true}}", "1e39", "floats are float32; this one does not fit"),
    ("parameters: {w: {type: float, default: 1e400, static: true}}", "1e400", "floats are float32; this one does not fit"),
    ("parameters: {w: {type: int, default: 3, static: 1}}", "1", "`parameters.w.static` must be true or false"),
    ("tensors: {t: {shape: [q_idx], dtype: int32}}", "q_idx", "`q_idx` is a position, not a length"),
    ("tensors: {t: {shape: [0], dtype: int32}}", "0", None),
    ("tensors: {t: {shape: [t], dtype: int32}}", "t", "`t` is not a length"),
    ("tensors: {t: {shape: heads, dtype: int32}}", "heads", "`tensors.t.shape` must be a list"),
    ("tensors: {t: {shape: [heads], dtype: float64}}", "float64", None),
    ("tensors: {t: {shape: [heads], dtype: float32, grad: true}}", "true", "trained tensors are not built yet"),
    ("tensors: {t: {shape: [heads], dtype: float32, nondecreasing: true}}", "true", None),
    ("tensors: {t: {shape: [heads], dtype: int32, range: [3, 3]}}", "[3, 3]", "`range` [3, 3) holds no int"),
    ("tensors: {t: {shape: [heads], dtype: int32, range: [3]}}", "[3]", None),
    ("tensors: {t: {shape: [width], dtype: int32, default: 1}}", "1", None),
    ("tensors: {t: {shape: [heads], dtype: int32, default: b}}\nscore: t[h]", "b", "`b` may not occur in the default of `t`"),
    ("tensors: {t: {shape: [heads], dtype: int32, default: 0.5}}\nscore: t[h]", "0.5", "the default of `t` is a float; it must be an int"),
    ("tensors: {t: {shape: [2], dtype: bool, default: 1}}\nmask: t[0]", "1", "the default of `t` is an int; it must be a bool"),
    ("parameters: {which: {type: bool, default: true, static: true}}\ntensors: {t: {shape: [n], dtype: bool}}\nmask: h < n if which else t[0]", "t", "the length `n` is known from `t` alone, which is not read"),
    ("let: {exp: q_idx}", "exp", "`exp` cannot be the name of a `let` name: it has a meaning of its own"),
    ("let: {a: c, c: q_idx}", "c", "`c` is used in `a` before it is defined"),
    ("let: {a: a}", "a", None),
    ("let: {a: 1}\nfunctions: {a(x): x}", "a", "`a` is already a function"),
    ("functions: {f: 1}", "f", "`f` is not `name(args)`"),
    ("functions: {f(x, x): x}", "f(x, x)", "two arguments are called `x`"),
    ("functions: {f(exp): 1}", "f(exp)", None),
    ("functions: {f(x): f(x)}", "f(x)", "`f` calls itself"),
    ("functions: {f(x): x + y}", "y", "unknown name `y` in `f`"),
    ("functions: {f(x): score}\nmask: f(1) > 0", "score", "`score` may not occur in `mask`"),
    ('parameters: {w: {type: int, default: 1, description: "\\a"}}', None, "`parameters.w.description` must hold no control character, here U+0007"),
    ('tensors: {t: {shape: [heads], dtype: int32, description: "\\x80"}}', None, "`tensors.t.description` must hold no control character, here U+0080"),
    ("name: " + "n" * 300, "n" * 300, f"`{'n' * 20}...` cannot be the name of a variant: it is 300 characters long"),
    (f"let: {{{'n' * 101}: 1}}", "n" * 101, f"`{'n' * 20}...` cannot be the name of a `let` name: it is 101 characters long"),
    ("name: my-variant", "my-variant", "`my-variant` cannot be the name of a variant"),
    ("extends: slidin_window", "slidin_window", "there is no variant `slidin_window`"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "token", "message"), DECLARATIONS)
def test_refused_in_a_declaration(text, token, message) -> None:
    if "(" in text.split("functions:")[-1] and "functions: {" in text:
        text = text.replace("functions: {", "functions:\n  ").replace("}", "")
        text = text.replace("let: {a: 1", "let: {a: 1}")
    start = "" if text.startswith("name:") else "name: x\n"
    check(only(start + text + "\n"), token, message, None)


HINTS = [
    ("tensors: {t: {shape: heads, dtype: int32}}", "heads", "write `[heads]`"),
    ("tensors: {t: {shape: [heads], dtype: int}}", "int", "did you mean `int32`?"),
    ("tensors: {t: {shape: [heads], dtype: Float}}", "Float", "did you mean `float32`?"),
    ("tensors: {t: {shape: [heads], dtype: bf16}}", "bf16", "did you mean `bfloat16`?"),
    ("parameters: {w: {type: int32, default: 1}}", "int32", "did you mean `int`?"),
    ("parameters: {w: {type: double, default: 1}}", "double", "did you mean `float`?"),
    (
        "tensors: {t: {shape: [4], dtype: float32, default: [1, 2, 3, 4]}}",
        "[1, 2, 3, 4]",
        "leave `default` out and pass the values with the call, or write one expression",
    ),
]


@pytest.mark.parametrize(("text", "token", "hint"), HINTS)
def test_hints_for_what_other_places_write_otherwise(text, token, hint) -> None:
    check(only(f"name: x\n{text}\n"), token, None, hint)


YAML = [
    ("name: x\n\tmask: true\n", "\t", "indent with spaces, not tabs"),
    ("name: x\nmask: *h\n", "*h", "an expression that begins with `*` needs quotes around it"),
    ("name: x\nmask: &h 1\n", "&h 1", None),
    ("name: x\nmask: !h 1\n", "!h 1", "write `not` for a negation, and no YAML tags"),
    ("name: x\nmask: @h\n", "@", "put quotes around a value that begins with this character"),
    ("name: x\nmask: 'h\n", None, "close the quotes"),
    ("name: x\n---\nname: y\n", "-", "one file holds one variant: remove the `---`"),
    ("name: x\nsoftmax: {sink: 1\n", None, "close the mapping with `}`; put quotes around an expression in it"),
    ("name: x\n[1, 2]: 3\n", "[1, 2]", None),
    ("- a\n- b\n", "- a", None),
    ("name: x\nmask: a\x01b\n", None, None),
    ("name: " + "[" * 100, "[", None),
    ("name: x\nmask: \"\\xZZ\"\n", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "token", "hint"), YAML)
def test_refused_as_yaml(text, token, hint) -> None:
    check(only(text), token, None, hint)
