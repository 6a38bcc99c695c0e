#!/bin/sh
# After install and upgrade: makes the user, lets it read the configuration, and starts the service anew.
set -e
if ! getent passwd couchrelay >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/couchrelay --no-create-home --shell /usr/sbin/nologin couchrelay
fi
# An upgrade does not bring a configuration back that was removed.
[ ! -e /etc/couchrelay/couchrelay.ini ] || chgrp couchrelay /etc/couchrelay/couchrelay.ini
# Where systemd does not run, as in a container, somebody else starts the service.
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1" in
configure) previous=$2 ;;            # Debian: the version before, if any
*) [ "$1" = 1 ] || previous=some ;;  # RPM: how many versions are installed now
esac
if [ -z "$previous" ]; then
	systemctl enable --now couchrelay.service
else
	systemctl try-restart couchrelay.service
fi
