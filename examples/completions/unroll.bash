# Completion for bash.  Options, and what they take, come from the program's own --help at that moment: there is
# no list here that could be out of date.

# The option's argument as --help shows it ("FILE", "f16|f32"); nothing for a flag.
_unroll_argument() {
    awk -v option="$2" '/^  -.,? |^      --/ {
        letter = substr($0, 3, 2)
        sub(/^ *(-., )?/, "")
        name = $0
        sub(/[ =[].*/, "", name)
        rest = substr($0, length(name) + 1)
        if ((option == name || option == letter) && rest ~ /^ [^ ]|^\[=/) {
            sub(/^( |\[=)/, "", rest)
            sub(/[] ].*/, "", rest)
            print rest
        }
    }' <<<"$1"
}

_unroll() {
    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} help argument
    COMPREPLY=()
    help=$("$1" --help 2>/dev/null) && [[ $help == "usage: "* ]] || return 0
    # "--option=value" comes as three words.
    if [[ $word == = ]]; then
        word=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    [[ $option != -* ]] || argument=$(_unroll_argument "$help" "$option")
    if [[ $argument == *"|"* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${argument//|/ }" -- "$word")
    elif [[ $argument && $argument != FILE && $argument != STATE ]]; then
        return 0
    elif [[ ! $argument && $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(grep -o -E '^  (-., |    )--[a-z0-9-]+' <<<"$help" |
            grep -o -e '--.*')" -- "$word")
    elif [[ $option == -m || $option == --model ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- "$word"; compgen -d -- "$word")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -F _unroll {,unroll-}{tokenize,prefill,decode-step,sample,beam,detok,generate,peek,constrain,penalize,quantize,score}
