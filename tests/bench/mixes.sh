# shellcheck shell=bash
# The mixes that tests/bench/mixes knows.  After workloads.sh.
# shellcheck disable=SC2034,SC2154

# point_file MIX SYSTEM: the name of its results, with % for each / of a trace's path.
point_file() { echo "${1//\//%}:$2.json"; }

# All mixes of four different loads, in a fixed order that spreads them: sets mixes.
all_mixes() {
	local a b c d n=${#workloads[@]}

	mapfile -t mixes < <(for ((a = 0; a < n; a++)); do
		for ((b = a + 1; b < n; b++)); do
			for ((c = b + 1; c < n; c++)); do
				for ((d = c + 1; d < n; d++)); do
					echo "${workloads[a]}+${workloads[b]}+${workloads[c]}+${workloads[d]}"
				done
			done
		done
	done | awk '{ mix[NR] = $0 } END { for (i = 0; i < NR; i++) print mix[i * 27 % NR + 1] }')
}
