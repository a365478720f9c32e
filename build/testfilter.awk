#!/usr/bin/awk -f
# testfilter.awk: of "go test -v", what a person wants to read. A failed test's
# output comes before its "--- FAIL" line, so the lines of a test are kept until
# its result is known.
/^=== (RUN|PAUSE|CONT|NAME)/ { if ($2 == "RUN" && $3 !~ /\//) held = ""; next }
/^--- PASS/ { held = ""; next }
/^--- SKIP/ { printf "%s%s\n", held, $0; held = ""; next }
/^--- FAIL/ { printf "%s%s\n", held, $0; held = ""; failing = 1; next }
/^(ok|FAIL|panic:|\?)/ { if ($1 != "ok" && $1 != "?") printf "%s", held; held = ""; if ($1 != "?") print; next }
/^#|^[^ ]+\.go:[0-9]+:[0-9]+:/ { print; next }
/^(PASS|testing: warning)/ { next }
{ held = held $0 "\n"; if (length(held) > 60000) held = substr(held, 20000) }
END { printf "%s", (failing ? held : "") }
