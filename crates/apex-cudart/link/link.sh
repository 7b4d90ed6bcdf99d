#!/bin/sh
# Links both shared libraries of the CUDA runtime from the archive that Cargo makes.
#
#   link.sh ARCHIVE FOLDER
#
# puts libcudart.so.12 and libcudart.so.13 into FOLDER. Every name in
# libcudart.so.1x.exports is exported under the symbol version of the library;
# "name = other" exports under `name` what the archive calls `other`. Nothing else is
# exported, and a name that the archive lacks is an error.
set -eu

archive=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for major in 12:12090 13:13000; do
    version=${major#*:}
    library=libcudart.so.${major%:*}
    exports=$here/$library.exports
    {
        echo "$library {"
        echo "  global:"
        sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\).*/    \1;/p' "$exports"
        echo "  local: *;"
        echo "};"
    } >"$work/map"
    # A renamed function gets its public name by an assignment of the linker; all that
    # is exported is asked for by name, so that the archive's objects are taken.
    sed -n \
        -e 's/^\([A-Za-z_][A-Za-z0-9_]*\) = \([A-Za-z_][A-Za-z0-9_]*\)$/-Wl,--defsym=\1=\2/p' \
        "$exports" >"$work/options"
    sed -n \
        -e 's/^[A-Za-z_][A-Za-z0-9_]* = \([A-Za-z_][A-Za-z0-9_]*\)$/-Wl,--undefined=\1/p' \
        -e 's/^\([A-Za-z_][A-Za-z0-9_]*\)$/-Wl,--undefined=\1/p' \
        "$exports" >>"$work/options"
    gcc -shared -fPIC -O2 -DAPEX_CUDART_VERSION="$version" -o "$work/$library" \
        "$here/version.c" "@$work/options" "$archive" \
        -Wl,--version-script="$work/map" -Wl,-soname,"$library" \
        -Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,-z,defs -Wl,--no-undefined-version -Wl,-O1 -Wl,--strip-debug \
        -lpthread -ldl -lm -lgcc_s
    # Moved into place whole: a program may have the old one mapped.
    mv -f "$work/$library" "$folder/$library"
done
