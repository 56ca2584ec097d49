# shellcheck shell=bash
# What is measured beside each other, and what it is called.
# shellcheck disable=SC2034

systems=(raid5 raid50 raid10 thin fusion fusion-unhedged fusion-blind)
# what is measured if nobody says what
usual=(raid5 raid50 raid10 fusion fusion-unhedged fusion-blind)
declare -A system_title=(
	[raid5]="4 x md RAID-5 (6+1)"
	[raid50]="md RAID-50 (4 x 6+1)"
	[raid10]="md RAID-10 (28)"
	[thin]="dm-thin on md RAID-50"
	[fusion]="dm-fusion (29, 6+1)"
	[fusion-unhedged]="dm-fusion without hedging"
	[fusion-blind]="dm-fusion without monitor"
)

list_systems() {
	local system

	for system in "${systems[@]}"; do
		printf '%-16s %s\n' "$system" "${system_title[$system]}"
	done
}

# As JSON.
titles() {
	local system

	for system in "${systems[@]}"; do
		jq -nc --arg name "$system" --arg title "${system_title[$system]}" '{ ($name): $title }'
	done | jq -sc add
}
