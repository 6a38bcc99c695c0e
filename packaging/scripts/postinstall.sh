#!/bin/sh
# After install and upgrade: makes the user, lets it read the configuration, and starts the service anew.
set -e
if ! getent passwd couchrelay >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/couchrelay --no-create-home --shell /usr/sbin/nologin couchrelay
fi
# An upgrade does not bring a configuration back that was removed.
[ ! -e /etc/couchrelay/couchrelay.ini ] || chgrp couchrelay /etc/couchrelay/couchrelay.ini

case "$1" in
configure | abort-*) # Debian: $2 is the version that was configured before, also if that was removed
	# A service that was disabled stays so, also if the package was removed in between; else it is enabled. Older
	# packages left no note of that: what they enabled is enabled.
	if deb-systemd-helper --quiet was-enabled couchrelay.service &&
		{ [ -z "$2" ] || deb-systemd-helper --quiet debian-installed couchrelay.service; }; then
		deb-systemd-helper enable couchrelay.service >/dev/null || true
	else
		deb-systemd-helper update-state couchrelay.service >/dev/null || true
	fi
	[ -d /run/systemd/system ] || exit 0 # as in a container: somebody else starts the service
	systemctl daemon-reload
	# A service that does not start says why. It leaves the package installed, or no other one could be either.
	deb-systemd-invoke "$([ -z "$2" ] && echo start || echo restart)" couchrelay.service || true
	;;
*) # RPM: how many versions are installed now
	[ -d /run/systemd/system ] || exit 0
	systemctl daemon-reload
	if [ "$1" = 1 ]; then
		systemctl enable --now couchrelay.service
	else
		systemctl try-restart couchrelay.service
	fi
	;;
esac
