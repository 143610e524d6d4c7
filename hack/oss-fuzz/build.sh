#!/bin/bash
# build.sh is what OSS-Fuzz runs in its container of go, in $SRC/podtask: it makes a fuzzer of each target, and a zip of its seeds,
# in $OUT. It changes the clone, so do not run it in yours: hack/oss-fuzz/check runs it in a copy.
set -euo pipefail

# What builds fuzzers for compile_native_go_fuzzer_v2, at the commit of the container.
fuzz_build=fc5dc53b9db8a38c394c53d6e439a1410cf8fc19
# Functions that this script has renamed, and that the fuzzers call.
renamed=Alone

. "$PWD/hack/lib.sh"
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir "$own/bin"
export PATH=$own/bin:$PATH

# toolchain makes a copy of Go where go.mod has had a newer one downloaded: files in the module cache cannot be replaced, and
# go-118-fuzz-build replaces one of package testing. It has to be built by that Go, too.
toolchain() {
	local goroot
	goroot=$(go env GOROOT)
	[[ "$goroot" == "$(go env GOMODCACHE)"/* ]] || return 0
	cp -r "$goroot" "$own/go"
	chmod -R u+w "$own/go"
	export GOROOT=$own/go GOTOOLCHAIN=local PATH=$own/go/bin:$PATH
}

# adapter builds it, and lets the module have its package.
adapter() {
	[ -z "${STAND_IN:-}" ] || return 0 # hack/oss-fuzz/check has no network
	git clone -q https://github.com/AdamKorcz/go-118-fuzz-build "$own/adapter"
	git -C "$own/adapter" checkout -q "$fuzz_build"
	(cd "$own/adapter" && GOFLAGS=-mod=mod go build -o "$own/bin/go-118-fuzz-build_v2" .)
	GOFLAGS=-mod=mod go get "github.com/AdamKorcz/go-118-fuzz-build/testing@$fuzz_build"
}

# tags lets the scripts of the container build with the tags of the product, beside theirs: without them, Podman's packages want
# libraries in C.
tags() {
	local from script
	from=$(dirname "$(command -v compile_native_go_fuzzer_v2)")
	for script in compile_native_go_fuzzer_v2 go_utils.sh; do
		sed "s/-tags gofuzz\"/-tags gofuzz,${TAGS// /,}\"/" "$from/$script" >"$own/bin/$script"
		grep -q -e '-tags gofuzz,' "$own/bin/$script" || die "$script has no tags any more: see tags in build.sh"
		chmod +x "$own/bin/$script"
	done
}

# seeds writes those of all targets: what `go test` runs, which are calls of f.Add and testdata/fuzz. libFuzzer reads another form.
seeds() {
	local goroot package
	goroot=$(go env GOROOT)
	sed 's/^\t\tf\.corpus = append(f\.corpus, c\.\.\.)$/&\n\t\twriteSeeds(f.name, f.corpus)/' "$goroot/src/testing/fuzz.go" >"$own/fuzz.go"
	grep -q writeSeeds "$own/fuzz.go" || die "package testing has its seeds elsewhere: see seeds in build.sh"
	printf '{"Replace": {"%s": "%s", "%s": "%s"}}\n' "$goroot/src/testing/fuzz.go" "$own/fuzz.go" \
		"$goroot/src/testing/seeds.go" "$PWD/hack/oss-fuzz/testdata/seeds.go" >"$own/overlay.json"
	cut -f 1 "$own/targets" | sort -u | while read -r package; do
		SEEDS=$own/seeds/$package CGO_ENABLED=0 go test -vet=off -count=1 -tags "$TAGS" -overlay "$own/overlay.json" -run '^Fuzz' "$package" </dev/null
	done
}

# apart moves the external test package of a package into a directory below, as a package of its own: fuzzers are made of packages.
# What the package's own tests export goes into the package.
apart() {
	local package=$1 dir=$2 files file
	mkdir "$dir/ossfuzz"
	mapfile -t files < <(CGO_ENABLED=0 go list -tags "$TAGS" -f '{{range .XTestGoFiles}}{{.}}{{"\n"}}{{end}}' "$package")
	for file in "${files[@]}"; do
		[ -n "$file" ] || continue
		sed 's/^package [a-z0-9_]*_test$/package ossfuzz/' "$dir/$file" >"$dir/ossfuzz/$file"
		rm "$dir/$file"
	done
	echo "package ossfuzz" >"$dir/ossfuzz/doc.go"
	[ ! -d "$dir/testdata" ] || cp -R "$dir/testdata" "$dir/ossfuzz"
	mapfile -t files < <(CGO_ENABLED=0 go list -tags "$TAGS" -f '{{range .TestGoFiles}}{{.}}{{"\n"}}{{end}}' "$package")
	for file in "${files[@]}"; do
		# Targets stay where they are found, and so does what they call.
		if [ -n "$file" ] && exports "$dir/$file"; then mv "$dir/$file" "$dir/${file%_test.go}_ossfuzz.go"; fi
	done
}

# exports reports whether a test file has no tests, and so helpers only.
exports() { ! grep -qE '^func (Test|Fuzz|Benchmark|Example)' "$1"; }

# compile makes a fuzzer. The script of the container looks for the function with grep, also in directories below: it takes FuzzX
# for FuzzXY and does nothing if there are two. So the function gets a name that no other has.
compile() {
	local package=$1 dir=$2 function=$3 fuzzer=$4 file
	file=$(grep -lE "^func $function\(" "$dir"/*_test.go)
	sed -i "s/^func $function(/func $function$renamed(/" "$file"
	compile_native_go_fuzzer_v2 "$package" "$function$renamed" "$fuzzer"
	sed -i "s/^func $function$renamed(/func $function(/" "$file"
	[ -s "$OUT/$fuzzer" ] || die "no fuzzer was made of $function in $package"
}

toolchain
adapter
tags
hack/oss-fuzz/targets | awk -F '\t' -v only="${ONLY:-.}" '$4 ~ only' >"$own/targets"
seeds
while IFS=$'\t' read -r package dir function fuzzer kind; do
	stored=$own/seeds/$package/$function
	# An external test package beside a target of the package would be taken for a part of it, too.
	[ -d "$dir/ossfuzz" ] || apart "$package" "$dir"
	[ "$kind" = in ] || package+=/ossfuzz dir+=/ossfuzz
	[ ! -d "$stored" ] || (cd "$stored" && zip -q -r "$OUT/${fuzzer}_seed_corpus.zip" .)
	compile "$package" "$dir" "$function" "$fuzzer" </dev/null
done <"$own/targets"
