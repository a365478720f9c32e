#!/usr/bin/awk -f
# bench-tui.awk: one table of what `go test -bench` and `go test -v` have
# written: least, median and most of each figure, and its bound.
function figure(name, unit, value, bound,   key) {
	key = sprintf("%-52s %-12s", name, unit)
	if (!(key in count)) {
		keys[++last] = key
		bounds[key] = bound
	}
	values[key, ++count[key]] = value + 0
}
function sort_values(key,   i, j, v) {
	for (i = 2; i <= count[key]; i++) {
		v = values[key, i]
		for (j = i - 1; j > 0 && values[key, j] > v; j--) values[key, j + 1] = values[key, j]
		values[key, j + 1] = v
	}
}
function column(unit,   i) {
	for (i = 3; i < NF; i++) if ($(i + 1) == unit) return $i
	return 0
}
{ sub(/-[0-9]+$/, "", $1) } # the number of cores
/^BenchmarkKeyToFrame/ {
	split($1, part, /[=\/]/)
	figure("key to frame, p99: " part[3] " peerings, " part[4], "ms", column("p99-ms"), part[3] > 1000 ? 16 : 8)
}
/^BenchmarkOneChangedRow/ {
	split($1, part, "=")
	figure("one changed row: " part[2] " peerings", "us", column("ns/op") / 1000, "")
	if (part[2] == 100 || part[2] == 10000) changed[part[2], ++rows[part[2]]] = column("ns/op")
}
/^BenchmarkLookingAgain/ {
	sub(/^BenchmarkLookingAgain\//, "", $1)
	gsub("_", " ", $1)
	figure("observed again, 1000 peerings: " $1, "us", column("ns/op") / 1000, "")
}
/^=== RUN/ { test = $3 }
/% of a core, / && match($0, /: [0-9.]+% of a core, [0-9.]+ frames\/s, [0-9]+ bytes\/s/) {
	split(substr($0, RSTART + 2, RLENGTH), part, /%? [^0-9]*/)
	what = test ~ /idle/ ? "idle, 1000 peerings" : "100 changes/s, 1000 peerings"
	figure(what, "% of a core", part[1], test ~ /idle/ ? 0.5 : 10)
	figure(what, "frames/s", part[2], test ~ /idle/ ? 0 : 10)
	figure(what, "bytes/s", part[3], test ~ /idle/ ? 0 : "")
}
/points each side: [0-9.]+ MiB/ {
	match($0, /side: [0-9.]+/)
	figure("1000 peerings, an hour of history", "MiB", substr($0, RSTART + 6, RLENGTH - 6), 120)
}
/first frame after [0-9.]+ ms/ {
	match($0, /after [0-9.]+/)
	figure("first frame, 50 contexts, 45 unreachable", "ms", substr($0, RSTART + 6, RLENGTH - 6), 100)
}
END {
	for (i = 1; i <= rows[100] && i <= rows[10000]; i++)
		figure("one changed row: 10000 against 100 peerings", "times", changed[10000, i] / changed[100, i], 1.5)
	printf "%-52s %-12s %9s %9s %9s %9s\n", "", "", "min", "median", "max", "at most"
	for (i = 1; i <= last; i++) {
		key = keys[i]
		sort_values(key)
		least = values[key, 1]
		above = bounds[key] != "" && least > bounds[key]
		failed = failed || above
		printf "%s %9.2f %9.2f %9.2f %9s%s\n", key, least, values[key, int((count[key] + 1) / 2)],
			values[key, count[key]], bounds[key], above ? "  <- above" : ""
	}
	if (last < 18) {
		print "figures are missing"
		failed = 1
	}
	exit failed
}
