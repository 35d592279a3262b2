#!/bin/sh
# ptxas_log.sh NVCC ARGUMENT...: runs nvcc, and moves what ptxas says of registers and spills (-Xptxas -v) off the
# screen into OBJECT.ptxas, beside the object. A compiler launcher; check_ptxas.py reads the logs.
object=
for argument in "$@"; do
  [ "$previous" = "-o" ] && object=$argument
  previous=$argument
done
[ -n "$object" ] || exec "$@"

"$@" 2>"$object.ptxas"
status=$?
grep -Ev '^ptxas info|^ +[0-9]+ bytes stack frame' "$object.ptxas" >&2
[ "$status" -eq 0 ] || rm -f "$object.ptxas"
exit "$status"
