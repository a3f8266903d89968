"""Constants of `Classes` of translation."""

#: keys of a task that its `Classes` keep
KEYS = ("prefix", "source_language", "target_language")
#: key of `Classes`: language of targets without spaces between words (`headspec.characters.unspaced`)
UNSPACED = "unspaced"
#: tokenizers of sacrebleu for BLEU of such languages, where they are installed
TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
#: tokenizer for other such languages, and where those are not installed
BY_CHARACTER = "char"
