#!/usr/bin/awk -f
# slowest.awk: seconds, name and package of each test in a log of "go test -v",
# but those whose result was cached. What ran in the virtual machine has no
# package: its part of the run is named. A test does not count the time of its
# parts that run beside each other, so these are named one by one.
function flush(where,  i) {
	for (i = 1; i <= n; i++) printf "%8.1f s  %s, %s\n", seconds[i], name[i], where
	n = 0
}
function note() { n++; name[n] = $3; seconds[n] = substr($4, 2) + 0 }
/^== part / { flush(part); part = $0; sub(/^== part [^:]*:[0-9]+: /, "", part) }
/^--- (PASS|FAIL): / { note(); whole = seconds[n] }
/^    --- (PASS|FAIL): / { if (substr($4, 2) + 0 > whole) note() }
/^(ok|FAIL)[ \t]+[^ \t]/ { if (/\(cached\)/) n = 0; else flush($2) }
END { flush(part) }
