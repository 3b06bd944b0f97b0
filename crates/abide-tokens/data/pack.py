#!/usr/bin/env python3
"""Packs a published list of tokens: pack.py NAME.tiktoken NAME.merges

The form is described in README.md. Ends with an error where the list does not have what the
crate relies on.
"""

import base64
import sys


def read(path):
    ranks = {}
    with open(path, "rb") as lines:
        for line in lines:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    return ranks


def parts(token, ranks):
    """The two tokens whose merge makes this one, by merging from single bytes."""
    rest = [token[i : i + 1] for i in range(len(token))]
    while len(rest) > 2:
        pairs = ((ranks.get(a + b), i) for i, (a, b) in enumerate(zip(rest, rest[1:])))
        _, i = min(pair for pair in pairs if pair[0] is not None)
        rest[i : i + 2] = [rest[i] + rest[i + 1]]
    return ranks[rest[0]], ranks[rest[1]]


def leb128(number):
    while number >= 128:
        yield number & 127 | 128
        number >>= 7
    yield number


def pack(ranks):
    tokens = sorted(ranks, key=ranks.get)
    assert [ranks[token] for token in tokens] == list(range(len(tokens))), "a rank is missing"
    assert len(tokens) < 1 << 18, "a rank has more than 18 bits"
    assert max(map(len, tokens)) <= 128, "a token is longer than 128 bytes"
    assert sorted(tokens[:256]) == [bytes([b]) for b in range(256)], "the bytes are not first"
    packed = bytearray(b"".join(tokens[:256]))
    for rank, token in enumerate(tokens[256:], 256):
        left, right = parts(token, ranks)
        assert left < rank and right < rank, "a token is made of later ones"
        packed += bytes(leb128(left)) + bytes(leb128(right))
    return bytes(packed)


if __name__ == "__main__":
    source, target = sys.argv[1:]
    packed = pack(read(source))
    with open(target, "wb") as file:
        file.write(packed)
