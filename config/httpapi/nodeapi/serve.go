package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"edgespan/config/httpapi/rest"
)

const (
	// maxSocketPath is what fits into sun_path with its NUL (unix(7)), less the suffix
	// under which the socket is made.
	maxSocketPath = 107 - len(freshSuffix)
	freshSuffix   = freshFolder + "/s"
	// freshFolder holds a socket until its mode is right: nobody else may enter it.
	freshFolder = ".new"
	// shutdownDeadline bounds the answers still under way when Serve ends.
	shutdownDeadline = 2 * time.Second
	// probeDeadline bounds the question whether a daemon lives behind a socket file.
	probeDeadline = time.Second
)

// Serve answers on the unix socket at socketPath with h until ctx ends, which is no
// error. The socket has mode 0660. A socket file that nobody listens on is replaced;
// where a daemon answers, Serve gives ErrConflict and leaves it alone.
func Serve(ctx context.Context, socketPath string, h http.Handler) error {
	l, err := listen(ctx, socketPath)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", socketPath, err)
	}
	streams, endStreams := context.WithCancel(context.Background())
	defer endStreams()
	srv := &http.Server{
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endsKey{},
				streams)
		},
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	own, err := os.Lstat(socketPath)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", socketPath, err), l.Close())
	}
	srv.RegisterOnShutdown(endStreams)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownDeadline)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			err = srv.Close()
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	// A successor may have put its own socket there meanwhile: that one stays.
	if now, statErr := os.Lstat(socketPath); statErr == nil && os.SameFile(own, now) {
		err = errors.Join(err, os.Remove(socketPath))
	}
	if err != nil {
		return fmt.Errorf("serve on %s: %w", socketPath, err)
	}
	return nil
}

// listen makes the socket under another name, sets its mode and renames it into
// place, so that at no instant a socket with the wrong mode can be connected to and a
// stale one is replaced in one step.
func listen(ctx context.Context, socketPath string) (net.Listener, error) {
	if len(socketPath) > maxSocketPath {
		return nil, fmt.Errorf("path too long (%d octets): must be at most %d", len(socketPath), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(socketPath), 0o755); err != nil {
		return nil, err
	}
	if err := mayReplace(ctx, socketPath); err != nil {
		return nil, err
	}
	folder, fresh := socketPath+freshFolder, socketPath+freshSuffix
	for _, left := range []string{fresh, folder} { // by a killed one; of former releases the socket itself
		if err := os.Remove(left); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(folder) }() // what is in it has another name by then
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its name is gone after the rename
	err = os.Chmod(fresh, 0o660)
	if err == nil {
		err = os.Rename(fresh, socketPath)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(fresh))
	}
	return l, nil
}

// mayReplace says why the file at socketPath must stay: it is no socket, or a daemon
// answers there.
func mayReplace(ctx context.Context, socketPath string) error {
	info, err := os.Lstat(socketPath)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return errors.New("a file that is not a socket has this name")
	}
	d := net.Dialer{Timeout: probeDeadline}
	c, err := d.DialContext(ctx, "unix", socketPath)
	if err == nil {
		return errors.Join(fmt.Errorf("another daemon answers there: %w", rest.ErrConflict), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // not known to be dead: EAGAIN is a live daemon with a full backlog
	}
	return nil
}
