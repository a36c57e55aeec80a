package proc

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// auditArch returns the architecture as in seccomp_data (linux/audit.h), or 0 if there is no filter for it.
func auditArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}
	return 0
}

// forbidden are system calls that a compromised program would use to reach other namespaces, other processes, the
// kernel, its clock and its filesystems.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL,
	unix.SYS_ACCT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME,
	unix.SYS_SETDOMAINNAME,
	unix.SYS_EXECVEAT, unix.SYS_PERSONALITY,
}

// Offsets in struct seccomp_data (linux/seccomp.h). Arguments have 64 bits, and both architectures are little endian.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16
	dataArg2 = 32

	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	x32Bit = 0x40000000
)

// seccompFilter refuses the forbidden calls, new namespaces, and all sockets except IP, Unix, rtnetlink and, if
// netfilter is set, nfnetlink with EPERM, and clone3 with ENOSYS (a filter can't read its flags; libc then uses clone).
// With apart, it asks the listener for sockets of UDP and of XFRM.
func seccompFilter(netfilter, apart bool) []unix.SockFilter {
	arch := auditArch()
	if arch == 0 {
		return nil
	}
	deny := func(errno unix.Errno) unix.SockFilter {
		return stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
	}
	other := uint32(unix.NETLINK_ROUTE)
	if netfilter {
		other = unix.NETLINK_NETFILTER
	}
	allow := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	load := func(at uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at) }
	f := []unix.SockFilter{
		load(dataArch), jump(unix.BPF_JEQ, arch, 1, 0), deny(unix.EPERM),
		load(dataNr), jump(unix.BPF_JGE, x32Bit, 0, 1), deny(unix.EPERM),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), deny(unix.ENOSYS),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4), load(dataArg0), jump(unix.BPF_JSET, newNamespaces, 0, 1), deny(unix.EPERM),
		allow,
	}
	if apart {
		f = append(f, jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 9), load(dataArg0),
			jump(unix.BPF_JEQ, unix.AF_INET, 2, 0), jump(unix.BPF_JEQ, unix.AF_INET6, 1, 0),
			jump(unix.BPF_JEQ, unix.AF_NETLINK, 2, 5),
			load(dataArg2), jump(unix.BPF_JEQ, unix.IPPROTO_UDP, 2, 3),
			load(dataArg2), jump(unix.BPF_JEQ, unix.NETLINK_XFRM, 0, 1),
			stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF), load(dataNr))
	}
	f = append(f,
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 10), load(dataArg0),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 7, 0), jump(unix.BPF_JEQ, unix.AF_INET, 6, 0),
		jump(unix.BPF_JEQ, unix.AF_INET6, 5, 0),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3), load(dataArg2), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 2, 0),
		jump(unix.BPF_JEQ, other, 1, 0),
		deny(unix.EPERM), allow,
	)
	for _, nr := range forbidden {
		f = append(f, jump(unix.BPF_JEQ, nr, 0, 1), deny(unix.EPERM))
	}
	return append(f, allow)
}

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// jump returns a conditional jump that skips yes or no instructions.
func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}
