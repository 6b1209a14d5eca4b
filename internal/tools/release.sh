#!/bin/sh
# Builds the files of a release from the commit that is checked out: release.sh v0.1.0 dist
# PLATFORMS are the platforms. The same commit and the same version of Go give the same bytes: the
# shell, GNU tar and gzip add no names, times or owners of this machine.
set -eu
version=$1 dist=$PWD/$2
fail() { echo "release: $*" >&2; exit 1; }

stamped=v$(sed -n 's/^const Version = "\(.*\)"$/\1/p' floe.go)
[ "$version" = "$stamped" ] || fail "floe.go has version $stamped, not $version: change it, and the heading in CHANGELOG.md, first"
[ -z "$(git status --porcelain)" ] || fail 'there are changes that are not committed; a release is built from a commit'
tar --version | grep -q GNU || fail 'GNU tar is needed'

export CGO_ENABLED=0 GOFLAGS= GOWORK=off GOAMD64=v1 GOARM64=v8.0 LC_ALL=C TZ=UTC
seconds=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$dist"
mkdir -p "$dist" "$work/files/completions"
# A clone has the files of the commit only, and Go stamps the commit into programs that it builds in
# one; in a further work tree of a repository it does not.
git clone -q . "$work/source"
cd "$work/source"

build() { go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$1" ./cmd/floe; }
build "$work/floe"
"$work/floe" man "$work/files/man/man1" --date "$(git log -1 --format=%cs)"
"$work/floe" completion bash >"$work/files/completions/floe.bash"
"$work/floe" completion zsh >"$work/files/completions/_floe"
"$work/floe" completion fish >"$work/files/completions/floe.fish"
cp LICENSE README.md CHANGELOG.md examples/deploy/floe.service "$work/files/"

# The licenses of everything that is linked into the program, Go included.
{
	echo "go $(go env GOVERSION) $(go env GOROOT)"
	go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/floe | sort -u
} | while read -r module number dir; do
	printf '\n==== %s %s\n\n' "$module" "$number"
	cat "$dir"/LICENSE* "$dir"/COPYING* "$dir"/NOTICE* 2>/dev/null || true
done >"$work/files/LICENSES-THIRD-PARTY"

for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
	name=floe-${version#v}-$(echo "$platform" | tr / -)
	cp -R "$work/files" "$work/$name"
	(export GOOS="${platform%/*}" GOARCH="${platform#*/}"; build "$work/$name/floe")
	# The SBOM has a checksum of its tool.
	GOFLAGS=-trimpath go tool -modfile=internal/tools/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$version" \
		-output "$dist/$name.cdx.json" "$work/$name/floe"
	tar -C "$work" --sort=name --format=ustar --mtime="@$seconds" --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' -cf - "$name" |
		gzip -9n >"$dist/$name.tar.gz"
	rm -r "${work:?}/$name"
	echo "$name.tar.gz"
done
(cd "$dist" && sha256sum ./*.json ./*.tar.gz | sed 's| \./| |' >SHA256SUMS)
