#!/usr/bin/awk -f
# coverage.awk PROFILES: of profiles bin/logs/PART.N.cover, the share of each package's
# statements that each part's tests reach.
FNR == 1 {
	part = FILENAME
	sub(/.*\//, "", part)
	sub(/\.[0-9]+\.cover$/, "", part)
	if (!(part in known)) { known[part]; order[++parts] = part }
	next
}
{
	block = $1
	statements[block] = $2
	if ($3 > 0) reached[block, part] = 1
}
END {
	for (block in statements) {
		pkg = block
		sub(/\/[^\/]*$/, "", pkg)
		sub(/^github.com\/liqo-tui\/liqo-tui\//, "", pkg)
		total[pkg] += statements[block]
		any = 0
		for (i = 1; i <= parts; i++)
			if ((block, order[i]) in reached) { hit[pkg, i] += statements[block]; any = 1 }
		if (any) hit[pkg, 0] += statements[block]
	}
	printf "%-44s %10s %6s", "package", "statements", "all"
	for (i = 1; i <= parts; i++) printf " %14s", order[i]
	print ""
	for (pkg in total) {
		line = sprintf("%-44s %10d %6.1f", pkg, total[pkg], 100 * hit[pkg, 0] / total[pkg])
		for (i = 1; i <= parts; i++) line = line sprintf(" %14.1f", 100 * hit[pkg, i] / total[pkg])
		print line | "sort"
	}
}
