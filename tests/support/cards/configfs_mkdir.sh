#!/bin/sh
# mkdir, with what the kernel does for a folder in configfs: it has a file for each port, with the value of the port.
/run/card/real/mkdir "$@" || exit
for path; do
  case $path in
  /sys/kernel/config/rdma_cm/*)
    if [ ! -e "$path/ports" ]; then
      /run/card/real/mkdir -p "$path/ports/1" && cp /run/card/tos "$path/ports/1/default_roce_tos"
    fi ;;
  esac
done
