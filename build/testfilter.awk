#!/usr/bin/awk -f
# testfilter.awk: of "go test -v", what a person wants to read. A failed test's
# output comes before its "--- FAIL" line, between that of others which run at the
# same time, so the lines of each test, and of each part of one, are kept until its
# result is known. Of one message, which may hold a component's log, the first and the
# last lines are kept: what failed is said by other messages, or at the end of a script.
BEGIN { long = 40; test = "" }
function flush_message(t,  i, n) {
	n = message[t]
	for (i = 1; i <= n && (n <= 2 * long || i <= long); i++) held[t] = held[t] lines[t, i] "\n"
	if (n > 2 * long) {
		held[t] = held[t] "        [" n - 2 * long " lines are in the log]\n"
		for (i = n - long + 1; i <= n; i++) held[t] = held[t] lines[t, i] "\n"
	}
	message[t] = 0
}
function forget(t) { delete message[t]; delete held[t] }
function forget_all(  t) { for (t in message) forget(t); test = "" }
function result(t,  text) { flush_message(t); text = held[t]; forget(t); return text }
function all_results(  t, text) { for (t in message) text = text result(t); return text }
/^=== (RUN|PAUSE|CONT|NAME)/ {
	test = $3
	if ($2 == "RUN") { forget(test); if (test !~ /\//) forget("") }
	next
}
/^ *--- PASS/ { forget($3); next }
/^ *--- SKIP/ { if (/^-/ && skips != "silent") printf "%s%s\n", result($3), $0; else forget($3); next }
/^ *--- FAIL/ { printf "%s%s\n", result($3), $0; failing = 1; next }
/^(ok|FAIL|panic:|\?)/ { if ($1 != "ok" && $1 != "?") printf "%s", all_results(); forget_all(); if ($1 != "?") print; next }
/^#|^[^ ]+\.go:[0-9]+:[0-9]+:/ { print; next }
/^(PASS|testing: warning)/ { next }
/^ *[^ ]+_test\.go:[0-9]+: / { flush_message(test) }
{ lines[test, ++message[test]] = substr($0, 1, 400) }
END { if (failing) printf "%s", all_results() }
