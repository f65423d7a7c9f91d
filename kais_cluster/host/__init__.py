"""A real single-node Kubernetes as plain processes, for machines without Docker or a registry.

build          pinned Go modules -> cached binaries
pki            certificates and kubeconfigs of one cluster
processes      start and stop, each process recorded with its start time
control_plane  etcd, kube-apiserver with an audit log, kube-controller-manager
network        bridge, sysctls, iptables rules of the pod network
node           containerd, kubelet, kube-proxy, scheduler, CoreDNS, the objects of the cluster
cleanup        containers, mounts and processes that a stopped node leaves behind
cluster        up, down and status of a complete cluster in one state directory
"""
