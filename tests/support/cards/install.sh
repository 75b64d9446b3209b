# Gives rail0 of this node a card: install.sh KIND FOLDER. /run/card/remove takes it away again.
kind=$1 folder=$2
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
mkdir -p /run/card/real
: >/run/card/remove

over() { # over FOLDER: an empty folder in place of one that cannot be written
  mount -t tmpfs tmpfs "$1"
  echo "umount $1" >>/run/card/remove
}

instead() { # instead COMMAND STAND-IN
  path=$(readlink -f "$(command -v "$1")")
  cp "$path" "/run/card/real/$1"
  install -m 755 "$folder/$2" "/run/card/$1"
  mount --bind "/run/card/$1" "$path"
  echo "umount $path" >>/run/card/remove
}

names=$(ls /sys/class/net)
device=/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0
over /sys/class
mkdir -p /sys/class/net/rail0/device /sys/class/infiniband/mlx5_0/device /sys/class/infiniband/mlx5_0/ports/1
for name in $names; do
  [ "$name" = rail0 ] || ln -s "/sys/devices/virtual/net/$name" "/sys/class/net/$name"
done
ln -s /sys/devices/virtual/net/rail0/* /sys/class/net/rail0/
ln -s ../../../../bus/pci/drivers/mlx5_core /sys/class/net/rail0/device/driver
cd /sys/class/infiniband/mlx5_0
echo "1: CA" >node_type
printf 'DRIVER=mlx5_core\nPCI_SLOT_NAME=%s\n' "${device##*/}" >device/uevent
echo Ethernet >ports/1/link_layer
echo "4: ACTIVE" >ports/1/state
echo "5: LinkUp" >ports/1/phys_state
echo "100 Gb/sec (4X EDR)" >ports/1/rate

over /sys/kernel
mkdir -p /sys/kernel/config/rdma_cm
echo 0 >/run/card/tos
instead mkdir configfs_mkdir.sh
instead rmdir configfs_rmdir.sh

if [ "$kind" = ofed ]; then
  ecn=/sys/class/net/rail0/ecn
  /run/card/real/mkdir -p $ecn/roce_np/enable $ecn/roce_rp/enable
  for priority in 0 1 2 3 4 5 6 7; do
    echo 0 | tee $ecn/roce_np/enable/$priority >$ecn/roce_rp/enable/$priority
  done
  echo 0 >$ecn/roce_np/cnp_dscp
  echo 4 >$ecn/roce_np/min_time_between_cnps
  over /usr/local/sbin
  install -m 755 "$folder/mlnx_qos.py" /usr/local/sbin/mlnx_qos
else
  parameters=/sys/kernel/debug/mlx5/${device##*/}/cc_params
  /run/card/real/mkdir -p "$parameters"
  echo 0 >"$parameters/np_cnp_dscp"
  instead dcb dcb.py
fi
echo "rm -r /run/card" >>/run/card/remove
