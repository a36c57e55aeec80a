package main

import (
	"slices"
	"strings"
	"testing"
)

// A module is loaded after all that it needs, once, and one whose name another name begins with is not loaded.
func TestModulesAreLoadedAfterWhatTheyNeed(t *testing.T) {
	const deps = `kernel/fs/9p/9p.ko: kernel/fs/netfs/netfs.ko kernel/net/9p/9pnet.ko
kernel/net/9p/9pnet.ko:
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/fs/netfs/netfs.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio.ko:
`
	got := strings.Join(inOrder(deps, []string{"9pnet_virtio", "9p"}), " ")
	want := "kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko kernel/net/9p/9pnet.ko " +
		"kernel/net/9p/9pnet_virtio.ko kernel/fs/netfs/netfs.ko kernel/fs/9p/9p.ko"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Each header and each content of the archive begins at a multiple of four octets, as the kernel reads them.
func TestAnArchiveIsAligned(t *testing.T) {
	for size := range 6 {
		for name := range 6 {
			var a archive
			content := slices.Repeat([]byte{'x'}, size)
			a.add(strings.Repeat("n", 1+name), 0o100644, content)
			a.add("TRAILER!!!", 0, nil)
			text := a.String()
			begin, next := strings.Index(text, "x"), strings.LastIndex(text, "070701")
			if size > 0 && begin%4 != 0 || next%4 != 0 || len(text)%4 != 0 || len(text) < next+110 {
				t.Errorf("%d octets under a name of %d: content at %d, next at %d of %d", size, name+1, begin, next, len(text))
			}
		}
	}
	var a archive
	a.add("init", 0o100755, []byte("#!"))
	want := "070701" + "00000000" + "000081ED" + "00000000" + "00000000" + "00000001" + "00000000" + "00000002" +
		strings.Repeat("00000000", 4) + "00000005" + "00000000" + "init\x00\x00#!\x00\x00"
	if got := a.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
