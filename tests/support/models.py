"""Tiny random models of every architecture, as folders with weights, config and tokenizer in the same files
as the real models."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sentencepiece
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as vocabularies
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from support import tiny
from support.running.studies import SPECIAL, WORDS, sentence, tokenizer

TEXTS = [sentence(np.random.default_rng(i), *WORDS[5 + i % 15 : 7 + i % 15]) for i in range(200)]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def word_pieces(folder: Path, special: list[str] = SPECIAL) -> None:
    """Write only vocab.txt."""
    (folder / "vocab.txt").write_text("\n".join(special + WORDS[len(SPECIAL) :]) + "\n")


def byte_pairs(folder: Path, special: list[str]) -> Tokenizer:
    """Write vocab.json and merges.txt of byte pairs, as GPT-2 and RoBERTa have them."""
    bpe = Tokenizer(vocabularies.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    bpe.model.save(str(folder))
    return bpe


def gpt(folder: Path) -> None:
    """Write vocab.json and merges.txt of letters."""
    bpe = Tokenizer(vocabularies.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    bpe.normalizer, bpe.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    bpe.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=150, special_tokens=["<unk>"], end_of_word_suffix="</w>")
    )
    bpe.model.save(str(folder))


def sentence_pieces(folder: Path, name: str, special: list[str]) -> None:
    """Write only a SentencePiece model; `special`: padding, beginning, end and unknown token."""
    with tempfile.TemporaryDirectory() as temporary:
        texts = Path(temporary) / "texts.txt"
        texts.write_text("\n".join(TEXTS))
        names = dict(zip(("pad_piece", "bos_piece", "eos_piece", "unk_piece"), special, strict=True))
        sentencepiece.SentencePieceTrainer.train(
            input=str(texts), model_prefix=f"{temporary}/pieces",
            vocab_size=80, model_type="unigram", minloglevel=2,
            hard_vocab_limit=False, pad_id=0, bos_id=1, eos_id=2, unk_id=3, **names,
        )  # fmt: skip
        (folder / name).write_bytes((Path(temporary) / "pieces.model").read_bytes())


def fairseq(folder: Path) -> None:
    sentence_pieces(folder, "sentencepiece.bpe.model", ["<pad>", "<s>", "</s>", "<unk>"])


def whole(folder: Path, special: list[str], single: list[str], pair: list[str], **names: str) -> None:
    """Write tokenizer.json with templates for single texts and pairs; if empty, without special tokens."""
    tokenizer = byte_pairs(folder, special)
    (folder / "vocab.json").unlink(), (folder / "merges.txt").unlink()
    if single:
        pairs = [(token, tokenizer.token_to_id(token)) for token in special]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=pairs
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def llama(folder: Path) -> None:
    """Texts start with a special token, but do not end with one; there is no padding token."""
    special = ["<s>", "</s>"]
    whole(folder, special, ["<s>", "$A"], ["<s>", "$A", "<s>", "$B"], bos_token="<s>", eos_token="</s>")


def qwen(folder: Path) -> None:
    """Texts have no special tokens."""
    whole(folder, ["<|endoftext|>"], [], [], eos_token="<|endoftext|>", padding_side="left")


def modernbert(folder: Path) -> None:
    special = ["[CLS]", "[SEP]", "[PAD]"]
    single, pair = ["[CLS]", "$A", "[SEP]"], ["[CLS]", "$A", "[SEP]", "$B", "[SEP]"]
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    whole(folder, special, single, pair, **names)


def bert(folder: Path) -> None:
    tokenizer().save_pretrained(folder)


PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
ONE_TYPE = {"pad_token_id": 1, "type_vocab_size": 1}
#: model: its type, the function that writes its tokenizer, settings of its config
MODELS: dict[str, tuple[str, Callable[[Path], object], dict]] = {
    "bert": ("bert", bert, {}),
    "tinybert": ("bert", word_pieces, {}),
    "roberta": ("roberta", lambda f: byte_pairs(f, ROBERTA_SPECIAL), ONE_TYPE),
    "xlm-roberta": ("xlm-roberta", fairseq, ONE_TYPE),
    "camembert": ("camembert", fairseq, ONE_TYPE),
    "electra": ("electra", word_pieces, {}),
    "deberta": ("deberta", lambda f: byte_pairs(f, ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]),
                {"position_biased_input": False, "type_vocab_size": 0}),
    "deberta-v3": ("deberta-v2", lambda f: sentence_pieces(f, "spm.model", PIECES),
                   {"position_biased_input": False, "type_vocab_size": 0}),
    "albert": ("albert", lambda f: sentence_pieces(f, "spiece.model", PIECES), {}),
    "distilbert": ("distilbert", word_pieces, {}),
    "mpnet": ("mpnet", lambda f: word_pieces(f, ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]),
              {"pad_token_id": 1}),
    "modernbert": ("modernbert", modernbert, {}),
    "gpt2": ("gpt2", lambda f: byte_pairs(f, ["<|endoftext|>"]), {}),
    "openai-gpt": ("openai-gpt", gpt, {}),
    "llama": ("llama", llama, {}),
    "qwen2": ("qwen2", qwen, {}),
    "qwen3": ("qwen3", qwen, {}),
    "mistral": ("mistral", llama, {}),
}  # fmt: skip


def pair_of_pieces(folder: Path) -> None:
    """Write SentencePiece models of sources and targets, and their common vocabulary, as Marian has them."""
    for name in ("source.spm", "target.spm"):
        sentence_pieces(folder, name, ["<pad>", "<s>", "</s>", "<unk>"])
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    words = [pieces.id_to_piece(i) for i in range(len(pieces))]
    vocabulary = ["</s>", "<unk>", *(w for w in words if w not in ("<pad>", "<s>", "</s>", "<unk>")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(vocabulary)}))


def many_to_many(folder: Path) -> None:
    """Write a SentencePiece model and its vocabulary, to which the tokenizer adds those of languages."""
    fairseq(folder)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    words = [pieces.id_to_piece(i) for i in range(4, len(pieces))]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *words]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(vocabulary)}))


def t5(folder: Path) -> None:
    sentence_pieces(folder, "spiece.model", ["<pad>", "<s>", "</s>", "<unk>"])


BART_SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
#: encoder-decoders, in the same way
TRANSLATORS: dict[str, tuple[str, Callable[[Path], object], dict]] = {
    "marian": ("marian", pair_of_pieces, {}),
    "bart": ("bart", lambda f: byte_pairs(f, ROBERTA_SPECIAL), BART_SPECIAL),
    "mbart": ("mbart", fairseq, BART_SPECIAL),
    "m2m100": ("m2m_100", many_to_many, BART_SPECIAL),
    "t5": ("t5", t5, {}),
    "mt5": ("mt5", t5, {}),
}
#: languages of those that have tokens of them
LANGUAGES = {"mbart": ("en_XX", "de_DE"), "m2m100": ("en", "de")}


def make(name: str, folder: Path) -> Path:
    """Write the model `name` into a new folder."""
    kind, write_tokenizer, settings = (MODELS | TRANSLATORS)[name]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    write_tokenizer(folder)
    size = len(AutoTokenizer.from_pretrained(folder))
    if kind == "marian":  # its padding is the last token
        settings = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    if kind == "m2m_100":  # whose tokens of languages come on top
        size += 120
    tiny.encoder(kind, vocab_size=size, **settings).save_pretrained(folder)
    return folder
