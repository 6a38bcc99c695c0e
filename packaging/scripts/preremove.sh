#!/bin/sh
# Before removal, and on Debian before an upgrade, which goes on without a stop.
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove) deb-systemd-invoke stop couchrelay.service ;; # Debian: it stays enabled, for the next installation
0) systemctl disable --now couchrelay.service ;;
esac
