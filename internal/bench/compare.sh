#!/usr/bin/env bash
# compare.sh OLD COUNT BENCH: what became slower or faster since OLD, a commit.
#
# Runs the benchmarks that match BENCH, of OLD and of the present files in turns, COUNT times, so that what else the
# machine does meets both alike. Then it shows the median of each with its 95 % interval, the difference, and p, the
# probability of such a difference by chance; a ~ stands where that is above 5 %. Exit status 1 tells that something
# became slower beyond that.
set -euo pipefail
old=$1 count=$2 bench=$3
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
packages=(cmd/couchrelay adapters/couch adapters/embedded)

cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'git worktree remove --force "$work/old" 2> /dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/old" "$old"
ln -s "$PWD" "$work/new"
for side in old new; do
	# Of a rate more is better; benchstat knows that of times and bytes only.
	for unit in docs/s plain-docs/s couchdb-docs/s jobs/s MB/s ratio times-couchdb; do
		echo "Unit $unit better=higher"
	done > "$work/$side.txt"
	for p in "${packages[@]}"; do
		(cd "$work/$side" && go test -c -o "$work/$side-${p//\//-}" "./$p")
	done
done
for turn in $(seq "$count"); do
	for side in old new; do
		echo "turn $turn of $count: $side" >&2
		for p in "${packages[@]}"; do
			(cd "$work/$side/$p" && "$work/$side-${p//\//-}" -test.run '^$' -test.bench "$bench" -test.benchtime 1x) \
				>> "$work/$side.txt"
		done
	done
done
go run "$benchstat" old="$work/old.txt" new="$work/new.txt"
# The same for a program to read: benchmark, median and interval of each side, difference and p, below lines of units.
go run "$benchstat" -format csv old="$work/old.txt" new="$work/new.txt" 2> /dev/null | awk -F, '
	$1 == "" && $3 == "CI" { unit = $2 }
	$1 != "geomean" && $6 ~ /^[+-]/ {
		less = substr($6, 1, 1) == "-"
		rate = unit ~ /\/s$|^ratio$|^times-/
		if (less == rate) { print "slower: " $1 " " $6 " " unit " (" $7 ")"; slower = 1 }
	}
	END { exit slower }'
