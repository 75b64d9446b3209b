// SPDX-License-Identifier: GPL-2.0
/*
 * QoS settings for the rails of a lab's node: `dcb pfc`, `ets`, `app`, `buffer` and `maxrate` store values on interfaces
 * called rail* and read them back, within the limits that real cards check. Nothing acts on the values: traffic is not
 * affected. They are lost when the interface or the module goes, as a card loses them at a reboot.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/dcbnl.h>

#define TCS IEEE_8021QAZ_MAX_TCS
#define DSCPS 64
#define TOTAL_BUFFER (256 * 1024)

struct rail {
	struct list_head list;
	struct net_device *dev;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
};

static LIST_HEAD(rails); /* dcbnl and the notifier both run under the RTNL lock */

static struct rail *rail_of(struct net_device *dev)
{
	struct rail *rail;

	list_for_each_entry(rail, &rails, list)
		if (rail->dev == dev)
			return rail;
	return NULL;
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = rail_of(dev)->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	unsigned int share = 0, tc;
	bool shared = false;

	for (tc = 0; tc < TCS; tc++) {
		if (ets->tc_tsa[tc] != IEEE_8021QAZ_TSA_STRICT && ets->tc_tsa[tc] != IEEE_8021QAZ_TSA_ETS)
			return -EOPNOTSUPP;
		if (ets->prio_tc[tc] >= TCS)
			return -EINVAL;
		if (ets->tc_tsa[tc] == IEEE_8021QAZ_TSA_ETS) {
			shared = true;
			share += ets->tc_tx_bw[tc];
		}
	}
	if (shared && share != 100)
		return -EINVAL;
	rail_of(dev)->ets = *ets;
	rail_of(dev)->ets.ets_cap = TCS;
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = rail_of(dev)->pfc;
	return 0;
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct ieee_pfc *stored = &rail_of(dev)->pfc;

	stored->pfc_en = pfc->pfc_en;
	stored->mbc = pfc->mbc;
	stored->delay = pfc->delay;
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	*maxrate = rail_of(dev)->maxrate;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	rail_of(dev)->maxrate = *maxrate;
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = rail_of(dev)->buffer;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	u64 total = 0;
	int index;

	for (index = 0; index < DCBX_MAX_BUFFERS; index++)
		total += buffer->buffer_size[index];
	for (index = 0; index < IEEE_8021Q_MAX_PRIORITIES; index++)
		if (buffer->prio2buffer[index] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
	if (total > TOTAL_BUFFER)
		return -EINVAL;
	rail_of(dev)->buffer = *buffer;
	rail_of(dev)->buffer.total_size = TOTAL_BUFFER;
	return 0;
}

/* The kernel stores the entries; `detach` knows how to remove those that are accepted here. */
static int set_app(struct net_device *dev, struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS || app->priority >= TCS)
		return -EINVAL;
	return dcb_ieee_setapp(dev, app);
}

static u8 get_dcbx(struct net_device *dev)
{
	return DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
}

static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	return mode != get_dcbx(dev);
}

static const struct dcbnl_rtnl_ops operations = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_getmaxrate = get_maxrate,
	.ieee_setmaxrate = set_maxrate,
	.ieee_setapp = set_app,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
};

static void attach(struct net_device *dev)
{
	struct rail *rail;
	int tc;

	if (strncmp(dev->name, "rail", 4) || dev->dcbnl_ops)
		return;
	rail = kzalloc(sizeof(*rail), GFP_KERNEL);
	if (!rail)
		return;
	rail->dev = dev;
	rail->pfc.pfc_cap = TCS;
	rail->ets.ets_cap = TCS;
	for (tc = 0; tc < TCS; tc++)
		rail->ets.prio_tc[tc] = tc;
	rail->buffer.buffer_size[0] = TOTAL_BUFFER;
	rail->buffer.total_size = TOTAL_BUFFER;
	list_add(&rail->list, &rails);
	dev->dcbnl_ops = &operations;
}

/* APP entries belong to the kernel and outlive the operations that accepted them; deleting one calls `getdcbx`. */
static void remove_apps(struct net_device *dev)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	u8 priorities;

	for (app.protocol = 0; app.protocol < DSCPS; app.protocol++)
		while ((priorities = dcb_ieee_getapp_mask(dev, &app))) {
			app.priority = __ffs(priorities);
			if (dcb_ieee_delapp(dev, &app))
				break;
		}
}

static void detach(struct net_device *dev)
{
	struct rail *rail = rail_of(dev);

	if (!rail)
		return;
	remove_apps(dev);
	dev->dcbnl_ops = NULL;
	list_del(&rail->list);
	kfree(rail);
}

/* Registering the notifier replays NETDEV_REGISTER for every interface, unregistering it NETDEV_UNREGISTER. */
static int notify(struct notifier_block *block, unsigned long event, void *pointer)
{
	struct net_device *dev = netdev_notifier_info_to_dev(pointer);

	if (event == NETDEV_REGISTER || event == NETDEV_CHANGENAME)
		attach(dev);
	else if (event == NETDEV_UNREGISTER)
		detach(dev);
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = notify };

static int __init railbed_dcb_init(void)
{
	return register_netdevice_notifier(&notifier);
}

static void __exit railbed_dcb_exit(void)
{
	unregister_netdevice_notifier(&notifier);
}

module_init(railbed_dcb_init);
module_exit(railbed_dcb_exit);
MODULE_DESCRIPTION("QoS settings without effect for the rails of a lab");
MODULE_LICENSE("GPL");
