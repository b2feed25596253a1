# A chroot of Debian sid in target/sid, which has Rust for targets that this machine lacks.
# To be sourced from the root of the repository, as root. Nothing stays mounted: what runs
# in the chroot has a mount namespace of its own, which ends with it.

sid=$PWD/target/sid

# sid_install PACKAGE…: makes the chroot if it is not there, and installs packages in it.
# What an interrupted run has left is made again.
sid_install() {
    if [ ! -d "$sid" ]; then
        local mirror
        mirror=$(sid_mirror)
        command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >&2
        rm -rf "$sid.part"
        mkdir -p "$sid.part"
        debootstrap --variant=minbase sid "$sid.part" "$mirror" >"$sid.log" 2>&1 || {
            tail -n 20 "$sid.log" >&2
            return 1
        }
        sid_configure "$sid.part"
        mv "$sid.part" "$sid"
    fi
    local package missing=()
    for package in "$@"; do
        [ -e "$sid/installed/$package" ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    sid_run sh -ec 'dpkg --configure -a; apt-get update -qq; apt-get install -y -qq \
        --no-install-recommends -o Dpkg::Use-Pty=0 "$@"; apt-get clean
        mkdir -p /installed; cd /installed; touch "$@"' sh "${missing[@]}" >"$sid.log" 2>&1 || {
        tail -n 20 "$sid.log" >&2
        return 1
    }
}

# Prints the mirror that this machine installs Debian's packages from.
sid_mirror() {
    apt-get update -qq >&2
    apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Label: Debian' |
        sort -u | grep -m 1 . || {
        echo 'apt has no mirror of Debian' >&2
        return 1
    }
}

# sid_configure DIR: lets apt and cargo in the chroot reach what they reach on this machine.
sid_configure() {
    apt-config dump --format '%F "%v";%n' Acquire >"$1/etc/apt/apt.conf.d/99host"
    cp -r /etc/apt/auth.conf* "$1/etc/apt/" 2>/dev/null || true
    cp /etc/hosts "$1/etc/hosts"
    mkdir -p "$1/etc/ssl/certs" "$1/cargo/.cargo" "$1/src"
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/" 2>/dev/null || true
    cp "${CARGO_HOME:-$HOME/.cargo}"/config.toml "$1/cargo/.cargo/" 2>/dev/null || true
}

# sid_run COMMAND…: runs a command in the chroot, in /src, which is this repository. Every
# process that it starts ends with it.
sid_run() {
    unshare --mount --pid --fork --kill-child sh -ec '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount --bind "$2" "$1/src"
        root=$1
        shift 2
        exec chroot "$root" sh -c "cd /src; exec \"\$@\"" sh "$@"
    ' sh "$sid" "$PWD" env -u CARGO_HOME -u RUSTUP_TOOLCHAIN -u RUSTC_WRAPPER -u TMPDIR \
        HOME=/cargo LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
