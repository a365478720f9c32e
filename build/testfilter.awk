#!/usr/bin/awk -f
# testfilter.awk: of "go test -v", what a person wants to read. A failed test's
# output comes before its "--- FAIL" line, so the lines of a test are kept until
# its result is known. Of one message, which may hold a component's log, the
# first and the last lines are kept: what failed is said by other messages.
BEGIN { long = 40 }
function flush_message(  i) {
	for (i = 1; i <= message && (message <= 2 * long || i <= long); i++) held = held lines[i] "\n"
	if (message > 2 * long) {
		held = held "        [" message - 2 * long " lines are in the log]\n"
		for (i = message - long + 1; i <= message; i++) held = held lines[i] "\n"
	}
	message = 0
}
function forget() { message = 0; held = "" }
function result(  text) { flush_message(); text = held; held = ""; return text }
/^=== (RUN|PAUSE|CONT|NAME)/ { if ($2 == "RUN" && $3 !~ /\//) forget(); next }
/^ *--- PASS/ { if (/^---/) forget(); next }
/^ +--- FAIL/ { print; next } # of a part: its messages were printed with the whole
/^--- SKIP/ { printf "%s%s\n", result(), $0; next }
/^--- FAIL/ { printf "%s%s\n", result(), $0; failing = 1; next }
/^(ok|FAIL|panic:|\?)/ { if ($1 != "ok" && $1 != "?") printf "%s", result(); forget(); if ($1 != "?") print; next }
/^#|^[^ ]+\.go:[0-9]+:[0-9]+:/ { print; next }
/^(PASS|testing: warning)/ { next }
/^ *[^ ]+_test\.go:[0-9]+: / { flush_message() }
{ lines[++message] = substr($0, 1, 400) }
END { if (failing) printf "%s", result() }
