"""What the words of the page mean."""

#: in the order of the page
GLOSSARY = {
    "D, dissociation": "How much more of its unpruned metric a task loses when its own most important heads "
    "are pruned than when those of the other tasks are. Of a mixture, the mean over its tasks; 0 if it does "
    "not matter whose heads are pruned.",
    "mixture": "Tasks that one model learns together.",
    "tuned, lora, frozen, prompted": "Training changes all weights, adapters, the classifiers alone, or "
    "nothing. Frozen and prompted models are the control: their dissociation is not a result of training.",
    "importance": "How fast a task's loss changes as a head's output is scaled: the mean absolute derivative "
    "over training examples.",
    "own heads": "The heads most important for a task, as many as the slider says.",
    "random": "As many heads, drawn at random: what pruning does whichever heads it takes.",
    "[ ]": "An interval, of 95 % unless the config says otherwise, over other validation examples and, from "
    "three seeds on, other seeds.",
    "p": "How often chance alone would make a difference at least as large, corrected for the tests of its "
    "kind in the study. From three seeds on it is about other seeds and examples; p of these runs, with one "
    "or two, says nothing about other seeds.",
    "double, single": "All tasks of a mixture, or some of them, lose clearly more without their own heads. "
    "Distinct: double, and the mean D reaches the study's threshold.",
    "inverted, none": "No task loses clearly more without its own heads; inverted if some lose clearly less.",
    "chance, † and ×": "A constant prediction would be as good. †: in some pruned model, so D means little. "
    "×: without pruning, too; such a model learnt nothing and counts in no finding.",
    "similarity": "How alike two tasks are by a measure: of their texts, of the model's states, or of what "
    "their losses are sensitive to; at most 1.",
    "r": "Correlation of D with similarity over pairs of tasks; its p permutes the tasks (Mantel test).",
    "IAT": "The end of training again, but a task's examples move only its own heads.",
    "points": "Differences of metrics in per cent: from 80 % to 82 % is 2 points.",
}
