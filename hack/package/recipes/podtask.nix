# nix-build -E '(import <nixpkgs> {}).callPackage ./podtask.nix {}'
{ lib, buildGoModule, fetchurl }:

buildGoModule rec {
  pname = "podtask";
  version = "{{.Version}}";

  # Debian's upstream tarball, which holds all Go modules.
  src = fetchurl {
    url = "https://github.com/podtask/podtask/releases/download/v${version}/podtask_{{.RPMVersion}}.orig.tar.xz";
    sha256 = "{{.Source}}";
  };
  vendorHash = null;

  buildPhase = ''
    runHook preBuild
    patchShebangs hack
    hack/build bin
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    BIN=$PWD/bin hack/dist install $out
    # For systemd.packages of NixOS, which searches below lib. nixpkgs moves them back and leaves a link.
    mkdir -p $out/lib/systemd
    mv $out/share/systemd/user $out/lib/systemd/user
    rmdir $out/share/systemd
    runHook postInstall
  '';
  doCheck = false;

  meta = {
    description = "Run ECS-style tasks on rootless Podman";
    homepage = "https://github.com/podtask/podtask";
    license = lib.licenses.asl20;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "podtask";
  };
}
