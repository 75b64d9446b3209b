"""Nodes as virtual machines with Soft-RoCE: real RoCEv2, with Debian's kernel and tools. Read `kind.py` first.

An image is built once from Debian's packages, booted, and saved at the point where it waits for its identity. The
nodes of every lab resume from there, which takes seconds even on an emulated processor.

kind       what the interface of labs asks for
recipe     contents of an image, and how its processor is run;  `guest/`  our files in it;  `scripts/`  run to build it
module     kernel module that stores QoS settings of the rails
rootfs     the files of an image;  initrd  the first file system of a node;  image  builds it
foreign    sets up packages for another processor
training   the disk that nodes train with
watch      follows long work in its log, and ends it when it stalls
cache      stores images and saved machines
qemu       the processes of a lab: machines, saved and resumed, and the hub between them
faults     applies the declared faults to the nodes

The key of an image is a hash over the code that builds it (rootfs, initrd, image, foreign), the scripts, the module and
the guest's files: editing one of these, even an import, makes every user build an image again.
"""
