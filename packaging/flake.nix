# Not run here: there is no nix. nix build .?dir=packaging, in the root of the source.
{
  description = "namegate finds, fixes and prevents file names that are damaged or that other systems refuse";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      manifest = builtins.fromTOML (builtins.readFile ../Cargo.toml);
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "namegate";
          version = manifest.workspace.package.version;
          src = ../.;
          cargoLock.lockFile = ../Cargo.lock;
          cargoBuildFlags = [ "--bin" "namegate" ];
          nativeBuildInputs = [ pkgs.installShellFiles ];
          # Tests of mounts need /dev/fuse, and those of other programs need these programs.
          doCheck = false;
          postInstall = ''
            mkdir pages
            $out/bin/namegate man pages
            installManPage pages/* docs/man/*
            for shell in bash zsh fish; do $out/bin/namegate completions $shell >namegate.$shell; done
            installShellCompletion namegate.{bash,zsh,fish}
            ln -s namegate $out/bin/mount.namegate
            ln -s namegate $out/bin/mount.fuse.namegate
            install -Dm644 -t $out/share/doc/namegate/schema schema/*.json
            for unit in systemd/*.service systemd/*.timer; do
              substitute $unit $TMPDIR/unit --replace-quiet /usr/bin/namegate $out/bin/namegate
              install -Dm644 $TMPDIR/unit $out/lib/systemd/system/$(basename $unit)
            done
          '';
          meta = {
            description = manifest.package.description;
            homepage = manifest.workspace.package.repository;
            license = with pkgs.lib.licenses; [ mit asl20 ];
            platforms = systems;
            mainProgram = "namegate";
          };
        };
      });
      devShells = each (pkgs: {
        default = pkgs.mkShell { packages = [ pkgs.cargo pkgs.rustc pkgs.clippy pkgs.rustfmt pkgs.fuse3 ]; };
      });
    };
}
