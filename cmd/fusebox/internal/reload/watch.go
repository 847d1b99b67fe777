package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

const (
	// settle is how long nothing may happen in the folders before the files are
	// read: an editor, or a copy, writes in several steps.
	settle = 100 * time.Millisecond
	// patience bounds that where something happens all the time.
	patience = time.Second
	// interval is how often the files are read without an event: some file
	// systems tell of none, and a folder that was replaced tells of none either.
	interval = 30 * time.Second
	// maxRead is how much of a file is compared: more than any of them may have.
	maxRead = 16<<20 + 1
)

// watch tells when the configuration's files have other contents: the file
// itself, and what it names as ${file:PATH} or as a fallback's file. Their
// folders are watched, not they: an editor renames a new file into place, and
// Kubernetes swaps a symbolic link to a folder. It belongs to one goroutine.
type watch struct {
	path    string
	log     *slog.Logger
	fs      *fsnotify.Watcher // nil: files are read every interval only
	ticker  *time.Ticker      // nil: there is no file
	seen    map[string]string // contents by path
	timer   *time.Timer       // runs while settling
	running bool
	began   time.Time // of the settling
}

func newWatch(path string, interval time.Duration, log *slog.Logger) *watch {
	w := &watch{path: path, log: log, timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	if path == "" {
		return w
	}
	w.ticker = time.NewTicker(interval)
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("the file system tells of no changes: the configuration is compared from time to time", "every", interval, "error", err)
		return w
	}
	w.fs = fs
	return w
}

func (w *watch) close() {
	w.timer.Stop()
	if w.ticker != nil {
		w.ticker.Stop()
	}
	if w.fs != nil {
		_ = w.fs.Close()
	}
}

// events returns the channel of what happens in the folders.
func (w *watch) events() <-chan fsnotify.Event {
	if w.fs == nil {
		return nil
	}
	return w.fs.Events
}

// lost returns the channel of what could not be told.
func (w *watch) lost() <-chan error {
	if w.fs == nil {
		return nil
	}
	return w.fs.Errors
}

func (w *watch) settled() <-chan time.Time { return w.timer.C }

func (w *watch) tick() <-chan time.Time {
	if w.ticker == nil {
		return nil
	}
	return w.ticker.C
}

// event puts off the next look.
func (w *watch) event() {
	if !w.running {
		w.running, w.began = true, time.Now()
	}
	w.timer.Reset(max(min(settle, patience-time.Since(w.began)), 0))
}

// look reads the files and reports whether their contents are others than
// before. c is the configuration in effect, which names some of them.
func (w *watch) look(c *config.Config) (changed bool) {
	w.running = false
	w.timer.Stop()
	if w.path == "" {
		return false
	}
	before := w.seen
	w.seen = contents(w.path, c)
	w.follow()
	return !maps.Equal(before, w.seen)
}

// keep takes in the files that a new configuration names, and leaves those seen
// before as they were read: what has changed since is still to be noticed.
func (w *watch) keep(c *config.Config) {
	if w.path == "" {
		return
	}
	now := contents(w.path, c)
	for path := range now {
		if sum, ok := w.seen[path]; ok {
			now[path] = sum
		}
	}
	w.seen = now
	w.follow()
}

// follow watches the folders of the files, and those that they are linked from.
func (w *watch) follow() {
	if w.fs == nil {
		return
	}
	want := map[string]bool{}
	for path := range w.seen {
		want[filepath.Dir(path)] = true
		if target, err := filepath.EvalSymlinks(path); err == nil {
			want[filepath.Dir(target)] = true
		}
	}
	have := w.fs.WatchList()
	for _, folder := range have {
		if !want[folder] {
			_ = w.fs.Remove(folder)
		}
	}
	for folder := range want {
		if slices.Contains(have, folder) {
			continue
		}
		if err := w.fs.Add(folder); err != nil {
			w.log.Debug("a folder cannot be watched", "folder", folder, "error", err)
		}
	}
}

var named = regexp.MustCompile(`\$\{file:([^}]+)\}`)

// contents returns what identifies the contents of the file and of those it
// names, by path. The text is looked through as well as the configuration in
// effect: a file that is bad now may wait for one of them.
func contents(path string, c *config.Config) map[string]string {
	all := map[string]string{}
	add := func(file string) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		if abs, err := filepath.Abs(file); err == nil {
			all[abs] = ""
		}
	}
	sum, text := read(path)
	texts := []string{text}
	for _, e := range c.Effective() {
		texts = append(texts, e.Value)
	}
	for _, text := range texts {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			add(m[1])
		}
	}
	for _, u := range c.Upstreams {
		if u.Fallback != nil && u.Fallback.File != "" {
			add(u.Fallback.File)
		}
	}
	for file := range all {
		all[file], _ = read(file)
	}
	if abs, err := filepath.Abs(path); err == nil {
		all[abs] = sum
	}
	return all
}

// read returns what identifies the contents of a file, and the first 1 MiB of
// them, which is all that a configuration may have. It reads regular files only,
// for others may block or never end.
func read(path string) (sum, text string) {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error(), ""
	}
	if !info.Mode().IsRegular() {
		return info.Mode().String(), ""
	}
	f, err := os.Open(path)
	if err != nil {
		return err.Error(), ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	head := make([]byte, min(info.Size(), 1<<20))
	n, _ := io.ReadFull(f, head)
	_, _ = h.Write(head[:n])
	if _, err := io.Copy(h, io.LimitReader(f, maxRead)); err != nil {
		return err.Error(), ""
	}
	return hex.EncodeToString(h.Sum(nil)), string(head[:n])
}
