package config

import (
	"fmt"
	"net/mail"
	"path/filepath"
	"strings"
	"time"
)

// Values of notify.digest.
const (
	NoDigest     = ""
	WeeklyDigest = "weekly"
)

// Notify configures the messages to the owners of jobs. Without a channel nothing is sent.
type Notify struct {
	Sendmail       string  `mapstructure:"sendmail"` // program and arguments, separated by spaces; empty: no mail
	From           string  `mapstructure:"from"`
	Domain         string  `mapstructure:"domain"`          // of USER@DOMAIN
	AddressCommand string  `mapstructure:"address_command"` // prints the address of a user, in place of Domain
	Webhook        Webhook `mapstructure:"webhook"`
	AdminComment   bool    `mapstructure:"admin_comment"` // in Slurm's accounting

	MinCoreHours float64       `mapstructure:"min_core_hours"` // without work, or MinGPUHours
	MinGPUHours  float64       `mapstructure:"min_gpu_hours"`
	Link         string        `mapstructure:"link"`     // with {cluster}, {job} and {user}; empty: none
	Template     string        `mapstructure:"template"` // file; empty: the shipped text
	Digest       string        `mapstructure:"digest"`   // NoDigest or WeeklyDigest
	RuleEvery    time.Duration `mapstructure:"rule_every"`
	UserPerDay   int           `mapstructure:"user_per_day"`
	PerMinute    int           `mapstructure:"per_minute"` // messages of each channel
	OptOut       []string      `mapstructure:"opt_out"`    // users, and absolute paths of files with users
	OptIn        []string      `mapstructure:"opt_in"`     // likewise; empty: everybody
}

// Webhook configures messages over HTTP.
type Webhook struct {
	URLFile    string `mapstructure:"url_file"` // empty: none
	Form       string `mapstructure:"form"`
	SecretFile string `mapstructure:"secret_file"` // empty: not signed
}

// Forms of a webhook's messages.
const (
	FormJSON       = "json"
	FormSlack      = "slack"
	FormMattermost = "mattermost"
	FormTeams      = "teams"
)

// linkFields are the texts that take the place of a name in braces.
var linkFields = strings.NewReplacer("{cluster}", "", "{job}", "", "{user}", "")

func (n *Notify) validate(f *findings) {
	if n.Sendmail != "" {
		if !filepath.IsAbs(n.Sendmail) || hasNUL(n.Sendmail) {
			f.wrong(errPath, "notify.sendmail", fmt.Sprintf("%.80q", n.Sendmail), "such as /usr/sbin/sendmail -t -i")
		}
		if _, err := mail.ParseAddress(n.From); err != nil {
			f.wrong(errTogether, "notify.sendmail", fmt.Sprintf("%.80q", n.Sendmail),
				"notify.from, the address of those who answer users")
		}
		if (n.Domain == "") == (n.AddressCommand == "") {
			f.wrong(errTogether, "notify.sendmail", fmt.Sprintf("%.80q", n.Sendmail),
				"notify.domain or notify.address_command, and not both")
		}
	}
	if n.Domain != "" {
		if _, err := mail.ParseAddress("user@" + n.Domain); err != nil {
			f.wrong(errChoice, "notify.domain", fmt.Sprintf("%.80q", n.Domain), "a domain such as example.org")
		}
	}
	if n.AddressCommand != "" {
		f.file("notify.address_command", n.AddressCommand)
	}
	f.oneOf("notify.webhook.form", n.Webhook.Form, FormJSON, FormSlack, FormMattermost, FormTeams)
	f.oneOf("notify.digest", n.Digest, NoDigest, WeeklyDigest)
	f.hours("notify.min_core_hours", n.MinCoreHours)
	f.hours("notify.min_gpu_hours", n.MinGPUHours)
	web := strings.HasPrefix(n.Link, "https://") || strings.HasPrefix(n.Link, "http://")
	if n.Link != "" && (!web || strings.ContainsAny(linkFields.Replace(n.Link), "{} \t\r\n")) {
		f.wrong(errChoice, "notify.link", fmt.Sprintf("%.80q", n.Link),
			"an address such as https://weir.example.org/job/{cluster}/{job}, with {user} too")
	}
	f.lasting("notify.rule_every", n.RuleEvery, time.Hour, 30*24*time.Hour)
	f.within("notify.user_per_day", int64(n.UserPerDay), 1, 1000)
	f.within("notify.per_minute", int64(n.PerMinute), 1, 600)
}

func (f *findings) hours(key string, value float64) {
	if !(value > 0 && value <= 1e9) {
		f.wrong(errRange, key, value, "above 0, to 1e9")
	}
}
