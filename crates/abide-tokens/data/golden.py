#!/usr/bin/env python3
"""Writes the counts that the tests expect: golden.py DIRECTORY > ../tests/golden.json

Counts with tiktoken (pip install tiktoken), fed with the published lists NAME.tiktoken in
DIRECTORY. The random texts are made again in tests/runner.rs, by the same generator.
"""

import json
import sys

import tiktoken
import tiktoken_ext.openai_public as public
from tiktoken.load import load_tiktoken_bpe

NAMES = ["o200k_base", "cl100k_base"]

TEXTS = [
    "",
    "hello world",
    "The quick brown fox jumps over the lazy dog. It's 10:45 p.m., and they've all gone; we'll see.",
    "don't DON'T Don'T we'RE I'LL you'd he'S it'\u017f 'tis 'S 'll'll o'clock rock'n'roll ''s 's' l'été",
    "camelCase PascalCase SCREAMING_SNAKE snake_case kebab-case HTTPServer iOS XMLHttpRequest McDonald's ABCdef ABC's abC",
    "fn main() {\n    let x: Vec<u32> = (0..10).map(|i| i * i).collect();\n    println!(\"{x:?}\");\n}\n",
    "def f(a, *, b=None):\n\t\"\"\"Doc.\"\"\"\n\treturn a if b is None else a / b  # note\n\n\nclass A:\n    pass\n",
    "#include <stdio.h>\r\nint main(void) {\r\n\treturn 0;\r\n}\r\n",
    '{"id":"call_9xQ","type":"function","arguments":"{\\"path\\":\\"/tmp/a b.txt\\",\\"n\\":-1.5e-7}","ok":true,"none":null}',
    "<!DOCTYPE html><a href=\"https://example.org/?q=1&r=%20#x\">&nbsp;</a><!-- -->",
    "SELECT id, COUNT(*) FROM t WHERE a >= 10 AND b LIKE '%x_%' GROUP BY 1 ORDER BY 2 DESC;",
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,4 @@\n-use x;\n+use y;\n // end\n//////\n/\n/\r\n/",
    "0 1 12 123 1234 12345 123456789 3.14159 1,000,000 0xDEADBEEF 1e10 \u0661\u0662\u0663\u0664 \u2167\u2168 \u00bd\u00bc\u00be\u00b2 \u4e00\u4e8c\u4e09",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u8fd9\u662f\u4e00\u4e2a\u7528\u4e8e\u6d4b\u8bd5\u7684\u53e5\u5b50\u3002\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u5427\u3002",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3002\u30ab\u30bf\u30ab\u30ca\u3068\u3072\u3089\u304c\u306a\u30fc\u3002\uff8a\uff9d\uff76\uff78 \uff21\uff22\uff43",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041c\u041e\u0421\u041a\u0412\u0410 \u0401\u043b\u043a\u0430 \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5 \u0386\u03a3",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0627\u0644\u0633\u0644\u0627\u0645\u064f \u0639\u0644\u064a\u0643\u0645 \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u200fabc\u200e",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0b95\u0bcd\u0bb7 \u1019\u103c\u1014\u103a\u1019\u102c",
    "Crème brûlée, naïve façade, Ångström, Straße, Œuvre, ĳ Ǆ ǅ ǆ ﬁ ſ K",
    "Cre\u0300me bru\u0302le\u0301e A\u0301BC \u0301ABC \u0301abc \u0301 \u0301\u0301! !\u0301a !!\u0301a 1\u0301 \n\u0301x \t\u0301X",
    "\u02b0A\u02b0B \u02b0\u02b1 A\u02b0b AB\u02b0CD \u65e5A\u672cB \u65e5Ab\u672cAB A\u65e5",
    "\U0001f980 \U0001f600\U0001f601 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f 1\ufe0f\u20e3 \U0001f3f4\u200d\u2620\ufe0f",
    "\U00020000\U0002a6d6 \U0001d400\U0001d41a\U0001d7ce \U00010400\U00010428 \U000e0001 \U0010ffff \ue000 \uffff",
    "\ufeffbom \ufffd\ufffd \u0000\u0001\u001b[31mred\u001b[0m \u007f\u0080\u009f \\xff\\xfe \\u0000",
    "ï»¿â€œquotedâ€\u009d Ã©Ã¨ Â£",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n\n",
    "\n  ",
    "a\n  ",
    "a  \n \n  ",
    "a \n\n  b\n   c    d \t e\t\t f",
    "x   \r\n\r\n   y \r z",
    "  leading and trailing  ",
    "tab\tseparated\t\tvalues\n\t\tindented\n\t  mixed",
    "a\u00a0b \u00a0c\u2003\u2003d\u3000e\u3000\u3000f \u2028g\u2029h\u0085i\u000bj\u000ck \u200bl\u180em",
    " \u00a0\n\u3000 \u3000",
    "\u00a0's \u00a0\u0301",
    "=" * 80 + "\n" + "-" * 37 + " " + "*" * 129 + "\n\n",
    "..." + "!" * 20 + "?!?! #@$%^&*()_+|~`{}[]:;<>,./\\ -- \u2014 \u2026 \u00ab\u00bb \u201cx\u201d \u20ac\u00a3\u00a5",
    "<|endoftext|><|fim_prefix|> <|endofprompt|>",
    "SGVsbG8gd29ybGQhIFRoaXMgaXMgYmFzZTY0Lg== 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "550e8400-e29b-41d4-a716-446655440000 2024-02-29T23:59:60.123456Z 192.168.0.1:8080 user@example.org",
    "https://example.org/a/b//c///d/?x=1&y=2#frag /usr/local/bin\n//\n/a C:\\Users\\x\\y",
    "\\frac{\\partial f}{\\partial x} \u2211\u222b\u221e \u2200x\u2208\u211d",
    "z" * 1000,
    "Pneumonoultramicroscopicsilicovolcanoconiosis" * 30,
    "\u0e01\u0e32\u0e23\u0e17\u0e14\u0e2a\u0e2d\u0e1a" * 100,
    " ".join("word%d" % i for i in range(3000)),
    " " * 300 + "x" + "\t" * 200 + "\n" + " " * 5000,
]

# What random texts are put together from.
FRAGMENTS = [
    "a", "b", "e", "s", "t", "the", "ing", "A", "B", "Z", "THE", "Word", "word", "x1", "0", "7", "42",
    " ", " ", " ", "  ", "\n", "\r", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "'", "'s", "'S", "'t", "'ll",
    "'RE", "'ve", "'d", "'m", "\u017f", ".", ",", "!", "/", "//", "-", "_", "(", ")", "{", "}", "\"", "\\",
    "\u00e9", "e\u0301", "\u0301", "\u00df", "\u00c9", "\u01c5", "\u02b0", "\u00aa", "\u65e5", "\u672c", "\u8a9e", "\u306e", "\u30a2", "\ud55c",
    "\u0430", "\u0416", "\u03c9", "\u03a9", "\u05e9", "\u0645", "\u064f", "\u0939", "\u093f", "\u0e01", "\u0e31", "\u2167", "\u00bd", "\u0663",
    "\U0001f980", "\U0001f44d\U0001f3fd", "\u200d", "\ufe0f", "\u200b", "\ufeff", "\ufffd", "\u20ac", "\U0001d400", "\U00020000",
    "\U0010ffff", "\u0000", "\u001b", "ab", "ABC", "return", "function", " = ", "();\n", "    ", "<|endoftext|>", "://", "==", "---",
]

SEED = 17
RANDOM = 5000


def splitmix(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        x = state
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        yield x ^ x >> 31


def random_texts():
    numbers = splitmix(SEED)
    for _ in range(RANDOM):
        # One in four is made of few fragments, so that runs are long.
        kinds = 3 if next(numbers) % 4 == 0 else len(FRAGMENTS)
        first = next(numbers)
        length = next(numbers) % 60
        yield "".join(
            FRAGMENTS[(first + next(numbers) % kinds) % 2**64 % len(FRAGMENTS)] for _ in range(length)
        )


def encoding(directory, name):
    # The published definition, but for where the list is read from.
    public.load_tiktoken_bpe = lambda _url, expected_hash: load_tiktoken_bpe(
        f"{directory}/{name}.tiktoken", expected_hash
    )
    return tiktoken.Encoding(**getattr(public, name)())


def main():
    encodings = [encoding(sys.argv[1], name) for name in NAMES]

    def counts(text):
        return [len(encoding.encode_ordinary(text)) for encoding in encodings]

    digests, sums = [0xCBF29CE484222325] * 2, [0, 0]
    for text in random_texts():
        for i, count in enumerate(counts(text)):
            # FNV-1a, a count at a time.
            digests[i] = (digests[i] ^ count) * 0x100000001B3 % 2**64
            sums[i] += count
    golden = {
        "tiktoken": tiktoken.__version__,
        "encodings": NAMES,
        "texts": [{"text": text, "counts": counts(text)} for text in TEXTS],
        "random": {
            "seed": SEED,
            "texts": RANDOM,
            "fragments": FRAGMENTS,
            "sums": sums,
            "digests": ["%016x" % digest for digest in digests],
        },
    }
    print(json.dumps(golden, indent=1))


if __name__ == "__main__":
    main()
