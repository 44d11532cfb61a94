#!/bin/sh
# Reports how many steps a second a script makes. `weir report-metric NAME VALUE UNIT` does the same as report, and checks
# the name, the value and the unit. docs/report.md says what becomes of the values.

# Appends one line, in one write: lines of several processes do not mix. Without the variable it does nothing.
report() {
	if [ -w "$WEIR_REPORT_FILE" ]; then printf '%s %s %s\n' "$1" "$2" "$3" >>"$WEIR_REPORT_FILE"; fi
}

rounds=$((5 * ${1:-10}))
while [ "$rounds" -gt 0 ]; do
	for step in 1 2 3 4; do sleep 0.05; done # what the script does
	report shell_steps_per_second 20 1/s
	rounds=$((rounds - 1))
done
