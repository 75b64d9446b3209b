"""Nodes as virtual machines with Soft-RoCE: real RoCEv2, with the kernel and the tools of Debian.

An image is made once from Debian's packages, booted, and saved where it waits to be told who it is; the nodes of every
lab go on from there, which takes seconds also where the processor is emulated.

recipe            what an image is made of;  guest/  our own files in it
rootfs, initrd    the files of an image;  image  makes it;  foreign  sets up packages for another processor
training          what nodes train with, on a disk of its own
watch             stages of long work from its log, and its end where it has stalled
state             boots it and saves it;  cache  keeps both
processor         KVM or emulation
hardware          QEMU's command line;  qmp  talks to QEMU
identity          what makes a node itself
machine, hub      the processes of a lab
faults            what the faults in force make of the nodes
"""
