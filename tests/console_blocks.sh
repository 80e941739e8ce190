#!/usr/bin/env bash
# Runs every console block of a page as printed, in order, in one shell: console_blocks.sh PAGE
#
# It stops at the first command that fails. `unlike` lists every line that is not run as printed,
# with what is run in its place, and why.

set -eu -o pipefail
page=$1
declare -A unlike

# Installs, from a package registry, then trains for minutes; the environment is here already.
unlike['make reproduce']='make -n reproduce'
unlike['make test']='make -n test'
# Train for minutes: 45, 45, 12, 45 and 6 runs.
unlike['make reproduce-peters2019-table1 SCALE=demo']='make -n reproduce-peters2019-table1 SCALE=demo'
unlike['make reproduce-peters2019-table1 SCALE=small ARGS="data_dir=../data"']='make -n reproduce-peters2019-table1 SCALE=small ARGS="data_dir=../data"'
tiny='hardware=cpu task.stored_examples=0 training.max_steps=1 model.embedding_size=4 model.hidden_size=4 decoding.max_length=3'
unlike['repro run -m mapping.alpha=1,1.25,1.5,2 seed=1,2,3']="repro run -m mapping.alpha=1,2 seed=1,2 task.setting=medium $tiny"
unlike['repro reproduce peters2019/table1 scale=demo']='repro reproduce peters2019/table1 scale=demo --dry-run'
# Train for tens of seconds.
unlike['repro run task=morphology mapping=entmax mapping.alpha=1.5 loss=entmax loss.alpha=1.5']="repro run task=morphology mapping=entmax mapping.alpha=1.5 loss=entmax loss.alpha=1.5 $tiny"
unlike['repro run task=nmt training.max_epochs=1']="repro run task=nmt training.max_epochs=1 $tiny"
unlike['make install']='make -n install'
unlike['repro run task=nmt mapping=sparsemax']="repro run task=nmt mapping=sparsemax $tiny"
unlike['repro run -m task=nmt mapping=entmax mapping.alpha=1,1.5,2 seed=1,2 name=alphas']="repro run -m task=nmt mapping=entmax mapping.alpha=1,1.5 seed=1 name=alphas $tiny"
# Needs a cluster with GPUs: refused here.
unlike['repro reproduce peters2019 scale=full hardware=cuda hydra/launcher=slurm --detach']='! repro reproduce peters2019/figure5 scale=full hardware=cuda hydra/launcher=slurm --detach'
# Stands for runs of the reader's own.
unlike['repro show RUN']='repro show "$(newest 1)"'
unlike['repro predict RUN input.txt > output.txt']='printf "tuli\tN;NOM;PL\tvelisk\n" > input.txt; repro predict "$(newest 1)" input.txt > output.txt'
unlike['repro compare RUN RUN']='repro compare "$(newest 1)" "$(newest 2)"'

# With $COMMANDS, a command of the package runs in a fork of the process that reads this pipe: it
# does not import torch anew. Its arguments, folder and variables are those that it has here.
if test "${COMMANDS-}"; then
    repro() {
        local folder status
        folder=$(mktemp -d)
        mkfifo "$folder/status"
        printf '%s\0' "$PWD" "$@" > "$folder/arguments"
        env -0 > "$folder/environment"
        echo "$folder" > "$COMMANDS"
        read -r status < "$folder/status"
        cat "$folder/output"
        cat "$folder/errors" >&2
        return "$status"
    }
fi

newest() { repro show | sed -n "$(($1 + 1))s/ .*//p"; }

# Blocks without a language, or of a console, whose commands stand behind a prompt.
lines=$(awk '/^```/ { open = !open; chosen = open && /^```(console)?$/; next } chosen' "$page" |
    sed 's/^\$ //; s/  *#.*//')
while IFS= read -r line <&3; do
    command=${unlike[$line]-$line}
    printf '$ %s\n' "$command"
    eval "$command"
done 3<<< "$lines"
