#!/usr/bin/env bash
# Builds what is published, into $DIST (dist/): static binaries in archives, Debian and RPM packages, and their checksums.
# The same commit with the same Go gives the same bytes on any machine.
#
#   packaging/dist.sh [PLATFORM...]     linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 without arguments
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
VERSION=${VERSION:-$(sed -n 's/^var version = "\(.*\)"/\1/p' cmd/couchrelay/main.go)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0

DIST=${DIST:-dist}
rm -rf "$DIST"
mkdir -p "$DIST"
go build -trimpath -buildvcs=false -ldflags "-X main.version=$VERSION" -o bin/ ./cmd/couchrelay # of this machine
packaging/share.sh bin/couchrelay "$DIST/share"
GOBIN=$PWD/bin go -C packaging/nfpm install github.com/goreleaser/nfpm/v2/cmd/nfpm
for platform; do
	export GOOS=${platform%/*} GOARCH=${platform#*/}
	name=couchrelay-$VERSION-$GOOS-$GOARCH
	dir=$DIST/$name
	mkdir "$dir"
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o "$dir/couchrelay" ./cmd/couchrelay
	cp -r README.md LICENSE docs ops "$DIST/share" packaging/couchrelay.ini packaging/couchrelay.service "$dir"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" \
		-C "$DIST" -c "$name" | gzip -9n >"$DIST/$name.tar.gz"
	if [ "$GOOS" = linux ]; then
		for packager in deb rpm; do
			ARCH=$GOARCH DIR=$dir bin/nfpm package -f packaging/nfpm.yaml -p $packager -t "$DIST/" >/dev/null
		done
	fi
	rm -r "$dir"
done
cd "$DIST"
rm -r share
sha256sum -- * >SHA256SUMS
ls -l
