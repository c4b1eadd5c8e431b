#!/bin/bash
# What an image has to do before it is published: bash packaging/try_image.sh IMAGE
set -euo pipefail
image="$1"
most_bytes=60000000

inspect() { docker inspect --format "$1" "$2"; }
broker() { docker exec --interactive "$container" pykafka-broker "$@" --bootstrap-server localhost:9092 --topic orders; }

[ "$(inspect '{{.Config.User}}' "$image")" = 1000 ] || { echo "$image runs as root" >&2; exit 1; }
container="$(docker run --detach --read-only --tmpfs /tmp --cap-drop ALL --publish 127.0.0.1:9644:9644 \
  "$image" --control 0.0.0.0:9644)"
trap 'docker logs "$container"; docker rm --force --volumes "$container" > /dev/null' EXIT
for _ in $(seq 60); do
  [ "$(inspect '{{.State.Health.Status}}' "$container")" = healthy ] && break
  sleep 1
done
[ "$(inspect '{{.State.Health.Status}}' "$container")" = healthy ] || { echo "$image is not healthy" >&2; exit 1; }
broker topics --create < /dev/null
echo apples | broker console-producer
broker console-consumer --from-beginning --max-messages 1 --timeout-ms 30000 < /dev/null | grep apples
curl --fail --silent --show-error http://127.0.0.1:9644/ | grep '<title>pykafka-broker</title>'
bytes="$(docker save "$image" | gzip | wc -c)"
[ "$bytes" -le "$most_bytes" ] || { echo "$image has $bytes bytes, more than $most_bytes" >&2; exit 1; }
echo "$image: $bytes bytes"
