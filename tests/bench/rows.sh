# shellcheck shell=bash
# What is measured, and what is required.  Sourced by run and by guest.
#
# Systems, over the same seven null_blk devices without data or latency:
#
#   raw      one of the devices
#   raid10   md RAID-10 of 7, 2 near copies, 64 KiB chunks, no bitmap
#   raid5    md RAID-5 of 7 (6+1), 64 KiB chunks, no bitmap, no group threads
#   raid5s   the same of 6 (5+1): its stripe is as large as dm-fusion's
#   fusion   dm-fusion of 7, 64 KiB blocks, volumes of 5+1, metadata in memory
#
# required: SYSTEM[@ROW]=RATIO, of dm-fusion's IOPS in this row to SYSTEM's in
# this or that ROW.
# shellcheck disable=SC2034

rows=(overwrite-4k read-4k read-4k-bigmap cold-4k overwrite-64k cold-64k
	stripe stripe+64k stripe+4k)

declare -A title=(
	[overwrite-4k]="4 KiB random overwrites of replicated blocks"
	[read-4k]="4 KiB random reads of replicated blocks"
	[read-4k-bigmap]="4 KiB random reads, map 10 times its cache"
	[cold-4k]="4 KiB random writes to new blocks, commits included"
	[overwrite-64k]="64 KiB random overwrites of replicated blocks"
	[cold-64k]="64 KiB random writes to new blocks, commits included"
	[stripe]="320 KiB random overwrites, aligned"
	[stripe+64k]="320 KiB random overwrites, 64 KiB off"
	[stripe+4k]="320 KiB random overwrites, 4 KiB off"
)

declare -A systems=(
	[overwrite-4k]="raw raid10 raid5 fusion"
	[read-4k]="raw raid10 raid5 fusion"
	[read-4k-bigmap]="raw raid10 raid5 fusion"
	[cold-4k]="raw raid10 raid5 fusion"
	[overwrite-64k]="raw raid10 raid5 fusion"
	[cold-64k]="raw raid10 raid5 fusion"
	[stripe]="raw raid10 raid5s fusion"
	[stripe+64k]="raid5s fusion"
	[stripe+4k]="raid5s fusion"
)

declare -A required=(
	[overwrite-4k]="raid10=1.0 raid5=2.4"
	[read-4k]="raid10=1.0"
	[read-4k-bigmap]="raid10=0.7"
	[cold-4k]="raid5=1.0"
	[overwrite-64k]="raid10=0.95"
	[cold-64k]="raid10=0.95"
	[stripe]="raid5s@stripe=1.7"
	[stripe+64k]="raid5s@stripe=1.7"
	[stripe+4k]="raid5s@stripe=1.7"
)

# Sizes in MiB.  hot is several times what md RAID-5's stripe cache holds.
member_mb=131072
hot_mb=256
cold_mb=65536
stripe_mb=320
map_cache_kb=128
# 8 bytes of map a block of 64 KiB.
bigmap_mb=$((map_cache_kb * 10 * 1024 * 64 / 8 / 1024))

# fio's arguments.  A run is one second of the guest's after a warm-up; the
# writes to new blocks have none, and two seconds and a flush within the time
# measured, so that commits are in.
steady="--time_based --runtime=1 --ramp_time=200ms"
cold="--time_based --runtime=2 --end_fsync=1 --offset=0 --size=${cold_mb}M"
declare -A io=(
	[overwrite-4k]="--rw=randwrite --bs=4k --size=${hot_mb}M $steady"
	[read-4k]="--rw=randread --bs=4k --size=${hot_mb}M $steady"
	[read-4k-bigmap]="--rw=randread --bs=4k --size=${bigmap_mb}M $steady"
	[cold-4k]="--rw=randwrite --bs=4k $cold"
	[overwrite-64k]="--rw=randwrite --bs=64k --size=${hot_mb}M $steady"
	[cold-64k]="--rw=randwrite --bs=64k $cold"
	[stripe]="--rw=randwrite --bs=320k --size=${stripe_mb}M $steady"
	[stripe+64k]="--rw=randwrite --bs=320k --offset=64k --size=${stripe_mb}M $steady"
	[stripe+4k]="--rw=randwrite --bs=320k --offset=4k --size=${stripe_mb}M $steady"
)

# The volume of dm-fusion that a row uses; volumes of the name "bigmap" are in
# a pool with a small map cache.
declare -A volume=(
	[overwrite-4k]=hot [read-4k]=hot [read-4k-bigmap]=bigmap [cold-4k]=cold4
	[overwrite-64k]=hot [cold-64k]=cold64
	[stripe]=stripe [stripe+64k]=stripe [stripe+4k]=stripe
)
