#!/bin/bash
# release.sh [FOLDER]: build all files of a release into FOLDER (dist), which is emptied
# first. REGISTRY is where the image is published, such as ghcr.io/liqo-tui. Without it,
# the programs have no default image to install. PLATFORMS are those of the program,
# ARCHITECTURES those of the image.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
registry=${REGISTRY:-}
version=${VERSION:-$(build/version.sh)}
commit=${COMMIT:-$(git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1)}
export SOURCE_DATE_EPOCH
mkdir -p bin
parts=$(mktemp -d bin/parts.XXXXXX)
trap 'rm -rf "$parts"' EXIT
rm -rf "$out"
mkdir -p "$out" "$parts/gateway" "$parts/dns" "$parts/man" "$parts/completion"

# The image comes first, because the programs contain its digest.
architectures=()
for arch in ${ARCHITECTURES:-amd64 arm64 arm}; do
	GOARCH=$arch GOARM=7 build/gobuild.sh . "$parts/gateway/$arch" ./cmd/liqo-gateway "-s -w"
	GOARCH=$arch GOARM=7 build/gobuild.sh cmd/liqo-tui-dns "$parts/dns/$arch" . "-s -w"
	platform=linux/$arch
	[ "$arch" != arm ] || platform=linux/arm/v7
	architectures+=("$platform:$parts/gateway/$arch=/liqo-gateway" "$platform:$parts/dns/$arch=/liqo-tui-dns")
done
build/gobuild.sh build/image bin/image . "-s -w"
bin/image -o "$out/liqo-gateway_${version#v}_image.tar" -tag "${registry:-unpublished.invalid}/liqo-gateway:$version" "${architectures[@]}" -- /liqo-gateway
digest=$(tar -xOf "$out/liqo-gateway_${version#v}_image.tar" index.json | grep -o 'sha256:[0-9a-f]*' | head -1)
image=
if [ -n "$registry" ]; then
	image=$registry/liqo-gateway:$version@$digest
fi

flags="-s -w -X main.version=$version -X main.commit=$commit -X main.releasedImage=$image"
for platform in ${PLATFORMS:-linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64}; do
	name=liqo-tui
	[ "${platform%-*}" != windows ] || name=liqo-tui.exe
	GOOS=${platform%-*} GOARCH=${platform#*-} build/gobuild.sh . "$parts/$platform/$name" ./cmd/liqo-tui "$flags"
done
host=$parts/linux-$(go env GOARCH)/liqo-tui
"$host" man "$parts/man"
for shell in bash zsh fish; do
	"$host" completion "$shell" >"$parts/completion/liqo-tui.$shell"
done
cp LICENSE "$parts/LICENSE"
go run ./build/chart -o "$parts/chart" -version "${version#v}" -image "$image"

build/gobuild.sh build/release bin/pack-release . "-s -w"
bin/pack-release -version "$version" -commit "$commit" -time "$SOURCE_DATE_EPOCH" -in "$parts" -out "$out"

# If there is a key, the checksums are signed, and with them all files that they list.
if [ -n "${COSIGN_KEY:-}" ]; then
	cosign sign-blob --yes --key "$COSIGN_KEY" --output-signature "$out/checksums.txt.sig" "$out/checksums.txt"
fi
echo "$version is in $out: $(find "$out" -type f | wc -l) files, $(du -sh "$out" | cut -f1); image ${image:-not published, $digest}"
