"""The type of tasks whose label is a text that the model writes: translation, or any text to any text."""

from __future__ import annotations

#: keys of a task that its `Classes` keep
KEYS = ("prefix", "source_language", "target_language")
#: of `Classes`: the language of targets without spaces between words (`headspec.characters.unspaced`)
UNSPACED = "unspaced"
#: such a language: the tokenizer of sacrebleu with which BLEU counts words, where it is installed
TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
#: that of other such languages, and in place of those that are not installed
BY_CHARACTER = "char"
