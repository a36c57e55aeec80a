// Command vm runs tests on a kernel of Debian's in a virtual machine, for what the kernel of the machine lacks: VLANs,
// bridges that filter VLANs, the controllers of cgroup2. The guest's root is that of the host, read-only, with a layer
// in memory on top: it has the host's programs and the test's files at the same paths, and nothing it writes stays.
//
// It downloads the kernel once, with apt-get, into the user's cache. It never touches the host's network, and the guest
// has none.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var (
	pattern = flag.String("run", ".", "run only the tests that match this regular expression")
	limit   = flag.Duration("timeout", 10*time.Minute, "end the tests of a package after this time")
	memory  = flag.Int("memory", 3072, "memory of the guest, in MiB")
	accel   = flag.String("accel", "tcg,thread=multi", "how the guest's instructions run: kvm where that works")
	kernel  = flag.String("kernel", "linux-image-amd64", "the Debian package of the kernel")
)

// bootTime bounds what the guest takes before and after the tests.
const bootTime = 90 * time.Second

// job is what the guest runs.
type job struct {
	Argv    []string
	Dir     string
	Env     []string
	Modules string // the folder of /lib/modules
	Limit   time.Duration
}

func main() {
	if os.Getpid() == 1 {
		guestMain()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "vm: name the packages, such as ./integration/netns")
		os.Exit(2)
	}
	failed := false
	for _, pkg := range flag.Args() {
		begin := time.Now()
		code, err := testPackage(pkg)
		if err != nil {
			fmt.Fprintf(os.Stderr, "vm: %s: %v\n", pkg, err)
			os.Exit(2)
		}
		fmt.Printf("vm: %s: exit code %d after %.0f s\n", pkg, code, time.Since(begin).Seconds())
		failed = failed || code != 0
	}
	if failed {
		os.Exit(1)
	}
}

// testPackage compiles the tests of a package and the commands that they run, and runs them in a guest.
func testPackage(pkg string) (exitCode int, err error) {
	k, err := findKernel(*kernel)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "esvm")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	tests, bin := filepath.Join(tmp, "tests"), filepath.Join(tmp, "bin")
	for _, args := range [][]string{{"test", "-c", "-ldflags", "-s -w", "-o", tests, pkg},
		{"build", "-ldflags", "-s -w", "-o", bin + "/", "edgespan/cmd/edgespan", "edgespan/cmd/edgespan-controller"}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("go %s: %w: %s", args[0], err, out)
		}
	}
	if _, err := os.Stat(tests); err != nil {
		return 0, errors.New("it has no tests")
	}
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(builtBefore), 0o755); err != nil { // #nosec G306 -- it is run
		return 0, err
	}
	path := bin + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin"
	j := job{Argv: []string{tests, "-test.v", "-test.run", *pattern, "-test.timeout", limit.String()},
		Dir: strings.TrimSpace(string(dir)), Modules: k.modules, Limit: *limit,
		Env: []string{"PATH=" + path, "HOME=/root", "TMPDIR=/tmp", "CGO_ENABLED=0"}}
	return boot(k, tmp, j)
}

// builtBefore is the go command of the guest, which takes minutes to build a command: the host has built it.
const builtBefore = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	-o) shift; out=$1 ;;
	edgespan/cmd/*) from=${0%/*}/${1##*/} ;;
	esac
	shift
done
exec cp "$from" "$out"
`

// boot runs a job in a guest, copies its output to the standard output, and returns its exit code.
func boot(k kernelFiles, tmp string, j job) (exitCode int, err error) {
	initramfs, log, result := filepath.Join(tmp, "initramfs"), filepath.Join(tmp, "console"), filepath.Join(tmp, "result")
	if err := writeInitramfs(initramfs, k.modules, j); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Limit+bootTime)
	defer cancel()
	processor := "max"
	if strings.HasPrefix(*accel, "tcg") {
		processor = "Westmere" // what newer ones can do costs an emulated one more than it saves
	}
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", *accel, "-cpu", processor,
		"-smp", "2", "-m", strconv.Itoa(*memory), "-nodefaults", "-nographic", "-no-reboot",
		"-kernel", k.image, "-initrd", initramfs, "-append", "console=ttyS0 quiet panic=-1 mitigations=off",
		"-serial", "file:"+log, "-serial", "stdio", "-serial", "file:"+result,
		"-device", "virtio-rng-pci",
		"-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ran := cmd.Run()
	text, err := os.ReadFile(result)
	if err == nil {
		exitCode, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		console, _ := os.ReadFile(log)
		return 0, fmt.Errorf("the guest gave no exit code (qemu: %v); its console:\n%s", errors.Join(ran, ctx.Err()), console)
	}
	return exitCode, nil
}

func (j job) encode() []byte {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and a number
	}
	return text
}
