package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	// sendPatience bounds a try. It is less than the time that systemd gives the service to end.
	sendPatience = 20 * time.Second
	// mostOutput bounds the output of a program that is kept.
	mostOutput = 4096
)

// sender sends messages on all channels.
type sender struct {
	cfg   config.Notify
	slurm string // directory of Slurm's commands; empty: by PATH
	texts *texts
}

// channels returns the channels that the configuration switches on.
func channels(cfg config.Notify) (all []string) {
	if cfg.Sendmail != "" {
		all = append(all, schemas.ChannelMail)
	}
	if cfg.Webhook.URLFile != "" {
		all = append(all, schemas.ChannelWebhook)
	}
	if cfg.AdminComment {
		all = append(all, schemas.ChannelComment)
	}
	return all
}

// send sends a message once.
func (s *sender) send(ctx context.Context, m message, digest bool) outcome {
	ctx, cancel := context.WithTimeout(ctx, sendPatience)
	defer cancel()
	switch m.channel {
	case schemas.ChannelMail:
		return s.mail(ctx, m, digest)
	case schemas.ChannelWebhook:
		return s.webhook(ctx, m, digest)
	}
	return s.comment(ctx, m.notices[0])
}

// userName is what may be the name of a user in an address and on a command line.
var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$`)

// mail gives a message to the sendmail program, which finds the recipient in the header.
func (s *sender) mail(ctx context.Context, m message, digest bool) outcome {
	if !userName.MatchString(m.user) {
		return outcome{never, fmt.Sprintf("%.40q may not be the name of a user in an address", m.user)}
	}
	to, o := s.address(ctx, m.user)
	if o.kind != delivered {
		return o
	}
	body, err := s.compose(m, digest, to, time.Now())
	if err != nil {
		return outcome{never, err.Error()}
	}
	args := strings.Fields(s.cfg.Sendmail)
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdin = bytes.NewReader(body)
	out, err := run(c)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return outcome{delivered, ""}
	case ctx.Err() != nil:
		return outcome{unsure, fmt.Sprintf("sendmail took more than %v", sendPatience)}
	case !errors.As(err, &exit): // it did not start
		return outcome{again, err.Error()}
	case exit.ExitCode() < 0:
		return outcome{unsure, "sendmail: " + err.Error()}
	case exit.ExitCode() >= 64 && exit.ExitCode() <= 68: // sysexits.h: usage, data, addresses
		return outcome{never, "sendmail: " + err.Error() + ": " + out}
	}
	return outcome{again, "sendmail: " + err.Error() + ": " + out}
}

// run runs a program, and returns the beginning of its output. A program that was asked to end has five seconds.
func run(c *exec.Cmd) (string, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	err := c.Run()
	return strings.TrimSpace(string(out.Bytes()[:min(mostOutput, out.Len())])), err
}

// address returns the address of a user. An outcome other than delivered is the reason that there is none.
func (s *sender) address(ctx context.Context, user string) (*mail.Address, outcome) {
	if s.cfg.AddressCommand == "" {
		a, err := mail.ParseAddress(user + "@" + s.cfg.Domain)
		if err != nil {
			return nil, outcome{never, err.Error()}
		}
		return a, outcome{}
	}
	var out bytes.Buffer
	c := exec.CommandContext(ctx, s.cfg.AddressCommand, user)
	c.Stdout, c.WaitDelay = &out, 5*time.Second
	if err := c.Run(); err != nil {
		return nil, outcome{again, "notify.address_command: " + err.Error()}
	}
	text := strings.TrimSpace(out.String())
	if text == "" {
		return nil, outcome{never, "notify.address_command has no address for the user"}
	}
	a, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, outcome{never, fmt.Sprintf("notify.address_command printed no address: %.80q", text)}
	}
	return &mail.Address{Address: a.Address}, outcome{}
}

// compose returns a mail with its header. What users chose is encoded, and cannot begin a line of the header.
func (s *sender) compose(m message, digest bool, to *mail.Address, now time.Time) ([]byte, error) {
	from, err := mail.ParseAddress(s.cfg.From)
	if err != nil {
		return nil, fmt.Errorf("notify.from: %w", err)
	}
	subject, text, err := s.texts.write(m, digest)
	if err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", from.String()},
		{"To", to.String()},
		{"Subject", mime.QEncoding.Encode("utf-8", strings.ReplaceAll(subject, "=?", "= ?"))}, // an encoded word,
		{"Date", now.Format(time.RFC1123Z)},
		{"Message-ID", "<weir." + m.id + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\n", h[0], h[1])
	}
	b.WriteString("\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(q, text) // a buffer takes everything
	_ = q.Close()
	return bytes.ReplaceAll(b.Bytes(), []byte("\r\n"), []byte("\n")), nil // sendmail takes lines of Unix
}

// posted is the generic form of a webhook's message. Its fields only grow.
type posted struct {
	ID      string            `json:"id"` // of all tries of a message
	Cluster string            `json:"cluster"`
	User    string            `json:"user"`
	Subject string            `json:"subject"`
	Text    string            `json:"text"`
	Jobs    []*schemas.Notice `json:"jobs"`
}

// webhook posts a message.
func (s *sender) webhook(ctx context.Context, m message, digest bool) outcome {
	body, err := s.form(m, digest)
	if err != nil {
		return outcome{never, err.Error()}
	}
	read, err := config.ReadFile(s.cfg.Webhook.URLFile)
	if err != nil {
		return outcome{again, "notify.webhook.url_file: " + err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSpace(string(read)), bytes.NewReader(body))
	if err != nil {
		return outcome{again, "notify.webhook.url_file has no address"} // the address may be a secret
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Weir-Id", m.id)
	if s.cfg.Webhook.SecretFile != "" {
		secret, err := config.ReadFile(s.cfg.Webhook.SecretFile)
		if err != nil {
			return outcome{again, "notify.webhook.secret_file: " + err.Error()}
		}
		at := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set("Weir-Time", at)
		req.Header.Set("Weir-Signature", "sha256="+signature(bytes.TrimSpace(secret), at, body))
	}
	answer, err := web.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // it names the address
			err = u.Err
		}
		return outcome{again, "webhook: " + err.Error()}
	}
	_, _ = io.CopyN(io.Discard, answer.Body, mostOutput)
	_ = answer.Body.Close()
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return outcome{delivered, ""}
	case code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests:
		return outcome{never, "webhook: " + answer.Status}
	}
	return outcome{again, "webhook: " + answer.Status}
}

// web follows no redirection: the signed message is for one address.
var web = &http.Client{
	Timeout:       sendPatience,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// signature signs a body together with the time of the try, so that nobody can repeat it later.
func signature(secret []byte, at string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(at + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// form writes a message in the form of the receiver. Chat programs read marks in texts, such as mentions of a group. So
// they get the text as preformatted, where no mark counts.
func (s *sender) form(m message, digest bool) ([]byte, error) {
	subject, text, err := s.texts.write(m, digest)
	if err != nil {
		return nil, err
	}
	var v any
	switch plain := subject + "\n\n" + text; s.cfg.Webhook.Form {
	case config.FormSlack:
		plain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(plain)
		v = map[string]string{"text": fenced(plain)}
	case config.FormMattermost:
		v = map[string]string{"text": fenced(plain)}
	case config.FormTeams:
		run := map[string]string{"type": "TextRun", "text": plain, "fontType": "Monospace"}
		v = map[string]any{"type": "message", "attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content": map[string]any{
				"type": "AdaptiveCard", "version": "1.4",
				"body": []any{map[string]any{"type": "RichTextBlock", "inlines": []any{run}}},
			},
		}}}
	default:
		v = posted{m.id, s.texts.cluster, printable(m.user), subject, text, m.notices}
	}
	return json.Marshal(v)
}

// fenced makes a preformatted text, which ends at no mark within it.
func fenced(text string) string { return "```\n" + strings.ReplaceAll(text, "`", "'") + "```" }

// comment writes a line into Slurm's accounting, unless another's text is there. Slurm's controller keeps no comment of
// a job that has ended, so it is written to the accounting itself. Trying again is harmless.
func (s *sender) comment(ctx context.Context, n *schemas.Notice) outcome {
	job := n.Task
	if !taskID.MatchString(job) {
		return outcome{never, fmt.Sprintf("%.40q is no number of a job of Slurm", job)}
	}
	out, err := run(exec.CommandContext(ctx, s.command("sacct"), "--noheader", "--parsable2", "--allocations", "--jobs",
		job, "--format=JobID,AdminComment"))
	if err != nil {
		return outcome{again, "sacct: " + err.Error() + ": " + out}
	}
	id, there, _ := strings.Cut(out, "|")
	there = strings.TrimSpace(there)
	switch {
	case id != job:
		return outcome{again, "sacct does not have the job"}
	case strings.HasPrefix(there, commentMark):
		return outcome{delivered, "it was there"}
	case there != "":
		return outcome{never, "the job has another comment"}
	}
	out, err = run(exec.CommandContext(ctx, s.command("sacctmgr"), "--immediate", "modify", "job", "where",
		"jobid="+job, "set", `AdminComment="`+s.texts.comment(n)+`"`))
	if err != nil {
		return outcome{again, "sacctmgr: " + err.Error() + ": " + out}
	}
	return outcome{delivered, ""}
}

// taskID is a job of Slurm. A task of an array is named by both numbers: the number alone may name the whole array.
var taskID = regexp.MustCompile(`^[0-9]{1,10}(_[0-9]{1,10})?$`)

func (s *sender) command(name string) string {
	if s.slurm == "" {
		return name
	}
	return s.slurm + "/" + name
}
