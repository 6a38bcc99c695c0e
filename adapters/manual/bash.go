package manual

import (
	"fmt"
	"strings"
)

func (p *Program) bash() string {
	var flagged, takes, below, of strings.Builder
	for _, n := range p.commands() {
		path := pathOf(n)
		var all, valued []string
		for _, f := range flags(n) {
			all = append(all, spellings(f)...)
		}
		for _, f := range values(n) {
			valued = append(valued, spellings(f)...)
			for _, s := range spellings(f) {
				writeBash(&of, path+" "+s, p.accepts(f.Value))
			}
		}
		fmt.Fprintf(&flagged, "    %s) words=%s ;;\n", quoted(path), quoted(strings.Join(all, " ")))
		if len(valued) > 0 {
			fmt.Fprintf(&takes, "    %s) words=%s ;;\n", quoted(path), quoted(strings.Join(valued, " ")))
		}
		for i, a := range n.Positional {
			writeBash(&of, fmt.Sprint(path, " ", i+1), p.accepts(a))
		}
		var names []string
		for _, c := range n.Children {
			if !c.Hidden {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&below, "    %s) words=%s ;;\n", quoted(path), quoted(strings.Join(names, " ")))
		}
	}
	return strings.NewReplacer("PROGRAM", p.App.Name, "    @FLAGS\n", flagged.String(), "    @TAKES\n", takes.String(),
		"    @BELOW\n", below.String(), "    @OF\n", of.String()).Replace(bashScript)
}

func writeBash(b *strings.Builder, of string, a accepted) {
	what := ""
	switch {
	case a.files:
		what = "kind=default"
	case a.directories:
		what = "kind=dirnames"
	case a.list:
		what = "kind=list words=" + quoted(strings.Join(a.words, " "))
	case len(a.words) > 0:
		what = "words=" + quoted(strings.Join(a.words, " "))
	default:
		return
	}
	fmt.Fprintf(b, "    %s) %s ;;\n", quoted(of), what)
}

// bashScript begins with data: for a command the words that its flags are, those flags that take a value, and the
// commands below it; for a flag of a command or a numbered argument the values.
const bashScript = `# bash completion for PROGRAM, printed by: PROGRAM completion bash

_PROGRAM_flags() {
    case $1 in
    @FLAGS
    esac
}

_PROGRAM_takes() {
    case $1 in
    @TAKES
    esac
}

_PROGRAM_below() {
    case $1 in
    @BELOW
    esac
}

_PROGRAM_of() {
    case $1 in
    @OF
    esac
}

# _PROGRAM_word adds those of $words that begin with $2, behind $1.
_PROGRAM_word() {
    local w
    for w in $words; do
        [[ $w == "$2"* ]] && COMPREPLY+=("$1$w")
    done
}

_PROGRAM() {
    # Words as the program gets them: bash also breaks lines at = and :.
    local line=() rest=${COMP_LINE:0:COMP_POINT} trimmed i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:blank:]]*}"}
        local word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$trimmed
        if ((i > 0)) && [[ $trimmed == "$rest" ]]; then
            line[${#line[@]}-1]+=$word
        else
            line+=("$word")
        fi
        rest=${trimmed#"$word"}
    done

    # The command, the number of the argument, and the flag whose value is to come.
    local path='' flag='' words='' kind='' arguments=0 only='' last=$((${#line[@]} - 1))
    for ((i = 1; i < last; i++)); do
        if [[ $flag ]]; then
            flag=
            continue
        fi
        case ${line[i]} in
        --) only=1 ;;
        -*)
            words=
            [[ $only ]] || _PROGRAM_takes "$path"
            [[ " $words " == *" ${line[i]} "* ]] && flag=${line[i]}
            ;;
        *)
            words=
            _PROGRAM_below "$path"
            if [[ " $words " == *" ${line[i]} "* ]]; then
                path=${path:+$path }${line[i]}
            else
                arguments=$((arguments + 1))
            fi
            ;;
        esac
    done

    local current=${line[last]} before=''
    COMPREPLY=() words=''
    if [[ ! $flag && ! $only && $current == --*=* ]]; then
        flag=${current%%=*} before=$flag=
        current=${current#*=}
    elif [[ ! $flag && ! $only && $current == -* ]]; then
        _PROGRAM_flags "$path"
        _PROGRAM_word '' "$current"
        return
    fi
    if [[ $flag ]]; then
        _PROGRAM_of "$path $flag"
    else
        ((arguments)) || _PROGRAM_below "$path"
        [[ $words ]] || _PROGRAM_of "$path $((arguments + 1))"
    fi
    case $kind in
    default | dirnames) compopt -o "$kind" 2>/dev/null && return ;;
    list)
        [[ $current == *,* ]] && before+=${current%,*},
        current=${current##*,}
        ;;
    esac
    _PROGRAM_word "$before" "$current"
    # What is replaced is what is behind the last = or :.
    local whole=$before$current
    local stays=${whole%"${whole##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]#"$stays"}")
}

complete -F _PROGRAM PROGRAM
`
