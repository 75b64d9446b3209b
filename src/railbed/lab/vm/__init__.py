"""Nodes as virtual machines with Soft-RoCE: real RoCEv2, with Debian's kernel and tools.

An image is built once from Debian's packages, booted, and saved at the point where it waits for its identity. The
nodes of every lab resume from there, which takes seconds even where the processor is emulated.

recipe            contents of an image;  guest/  our files in it;  scripts/  what building it runs
rootfs, initrd    the files of an image;  image  builds it;  foreign  sets up packages for another processor
training          what nodes train with, on a disk of its own
watch             follows long work in its log, and ends it when it stalls
cache             keeps images and saved machines
processor         KVM or emulation
qemu/             the processes of a lab: machines, saved and resumed, and the hub between them
faults            applies the declared faults to the nodes

The key of an image hashes the code that builds it (rootfs, initrd, image, foreign, training), so editing one of these
files, even an import, makes every user build an image again.
"""
