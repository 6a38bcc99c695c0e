#!/bin/sh
# After removal. The store stays, also when Debian purges the configuration: it has jobs and their history.
set -e
[ -d /run/systemd/system ] && systemctl daemon-reload
if [ "$1" = purge ] && [ -d /var/lib/couchrelay ]; then
	echo "couchrelay: /var/lib/couchrelay with the store and the key of its secrets was left; remove it if it is not needed"
fi
exit 0
