#!/bin/sh
# After removal. The store stays, also when Debian purges the configuration: it has jobs and their history.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	deb-systemd-helper purge couchrelay.service >/dev/null || true
	if [ -d /var/lib/couchrelay ]; then
		echo "couchrelay: /var/lib/couchrelay with the store and the key of its secrets was left; remove it if it is not needed"
	fi
fi
