#!/bin/bash
# The stream of an exec session ends before its exit code is recorded.
. "$(dirname "$0")/common.sh"
rounds=${ROUNDS:-200}
podman run -d --name "$name" --network none "$IMAGE" sleep 3600 >"$work/id" || cannot "no container"
serve
early=0
for _ in $(seq "$rounds"); do
	id=$(call POST "/containers/$name/exec" '{"Cmd":["sh","-c","exit 5"],"AttachStdout":true,"AttachStderr":true}' | jq -r .Id)
	call POST "/exec/$id/start" '{"Detach":false}' >"$work/stream"
	call GET "/exec/$id/json" | jq -e '.Running == false and .ExitCode == 5' >"$work/answer" || early=$((early + 1))
done
[ "$early" -eq 0 ] || seen "$early of $rounds sessions had no exit code after the end of their stream"
not_seen "$rounds sessions"
