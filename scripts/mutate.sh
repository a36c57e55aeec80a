#!/bin/sh
# Mutates the pure cores, one package after the other, and prints how many mutants their own tests
# kill. It fails where a package is under the bar. It takes packages as arguments; all without.
# Change no file of the tree meanwhile: each package is copied when its turn comes.
set -eu

gremlins=${GREMLINS:-.tools/gremlins}
cores='appnet netinst netinst/netstate config/rollout config/confirm config/state config/edit config/history'
killed_bar=97    # percent of the mutants that ran
uncovered_bar=5  # percent of all

export CGO_ENABLED=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
printf '%-18s %7s %6s %8s %10s %8s %10s\n' package killed lived 'timed out' 'not viable' score uncovered
for package in ${*:-$cores}; do
	if ! "$gremlins" unleash "./$package" >"$out" 2>&1; then
		cat "$out" >&2
		exit 1
	fi
	awk -v package="$package" -v killed_bar=$killed_bar -v uncovered_bar=$uncovered_bar '
		/ KILLED /      { killed++ }
		/ LIVED /       { lived++; left = left "  " $0 "\n" }
		/ TIMED OUT /   { slow++ }
		/ NOT VIABLE /  { broken++ }
		/ NOT COVERED / { uncovered++; left = left "  " $0 "\n" }
		END {
			ran = killed + lived
			score = ran ? 100 * killed / ran : 0
			all = ran + slow + uncovered
			none = all ? 100 * uncovered / all : 100
			printf "%-18s %7d %6d %8d %10d %7.1f%% %9.1f%%\n", package, killed, lived, slow, broken, score, none
			printf "%s", left
			exit score < killed_bar || none > uncovered_bar
		}' "$out" || status=1
done
if [ $status != 0 ]; then
	echo "mutate: a package is under the bar: at least $killed_bar % killed and at most $uncovered_bar % uncovered" >&2
fi
exit $status
